"""What postroom's own tests use and yours may: both ends of SMTP, a clock that obeys, a data folder that goes away."""

from postroom.testing.clock import FakeClock
from postroom.testing.folders import temp_data_folder
from postroom.testing.smtp import DROP, Sent, SinkMail, SmtpSink, send_mail
from postroom.testing.threads import ThreadedSink

__all__ = ["DROP", "FakeClock", "Sent", "SinkMail", "SmtpSink", "ThreadedSink", "send_mail", "temp_data_folder"]
