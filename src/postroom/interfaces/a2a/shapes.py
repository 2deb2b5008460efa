"""Tasks, messages and artifacts in the protocol's form."""

from __future__ import annotations

from typing import Final

from a2a.types import a2a_pb2 as pb

from postroom.interfaces.a2a.tasks import COMPLETED, TaskView
from postroom.mailbox.records import Message

FILES_ALONE: Final = "(files)"  # the text of a message that is nothing but files


class Shapes:
    """`origin` is where this house is reached: files are fetched there, with the caller's token."""

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def task(self, view: TaskView, history: int | None = None, *, artifacts: bool = True) -> pb.Task:
        """A task with the last `history` messages (None: all)."""
        said = view.history if history is None else view.history[len(view.history) - history :] if history else ()
        task = pb.Task(
            id=view.task_id,
            context_id=view.message.thread,
            status=self.status(view),
            history=[self._message(view, each) for each in said],
        )
        if artifacts and view.state == COMPLETED and view.answer is not None:
            task.artifacts.append(self.artifact(view.answer))
        return task

    def status(self, view: TaskView) -> pb.TaskStatus:
        """How the task stands, with the words that brought it there."""
        status = pb.TaskStatus(state=pb.TaskState.Value(view.state))
        status.timestamp.FromMicroseconds(view.at)
        if view.answer is not None:
            status.message.CopyFrom(self._message(view, view.answer))
        return status

    def artifact(self, answer: Message) -> pb.Artifact:
        """The answer as what the task made."""
        return pb.Artifact(artifact_id=f"mail-{answer.seq}", name="answer", parts=self._parts(answer))

    def _message(self, view: TaskView, message: Message) -> pb.Message:
        mine = message.sender == view.message.sender
        return pb.Message(
            message_id=f"mail-{message.seq}",
            context_id=view.message.thread,
            task_id=view.task_id,
            role=pb.Role.ROLE_USER if mine else pb.Role.ROLE_AGENT,
            parts=self._parts(message),
        )

    def _parts(self, message: Message) -> list[pb.Part]:
        files = [
            pb.Part(url=f"{self._origin}/mailbox/attachments/{each.file_id}", filename=each.name, media_type=each.media_type)
            for each in message.files
        ]
        if files and message.text == FILES_ALONE:
            return files
        return [pb.Part(text=message.text or "(withdrawn)", media_type="text/plain"), *files]
