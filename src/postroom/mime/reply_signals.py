"""The lines by which mail programs announce a quoted mail, in the languages people write in.

Knowledge only: what a line says. Where a reply is cut, and when not, is decided in `reply`.
"""

from __future__ import annotations

import re
from typing import Final

EMAIL: Final = re.compile(r"[^\s<>()\[\]:;,@]{1,64}@[^\s<>()\[\]:;,@]{1,190}\.[^\s<>()\[\]:;,@]{2,24}")
DATE: Final = re.compile(r"\d{1,2}[:.h]\d{2}|\b(?:19|20)\d{2}\b|\d{4}年|[٠-٩۰-۹]{4}|\d{1,2}[./]\d{1,2}[./]\d{2,4}")

_ORIGINAL: Final = (
    "original message|original appointment|ursprüngliche nachricht|originalnachricht|message d['’]origine|message original|mensaje original"
    "|mensagem original|messaggio originale|oorspronkelijk bericht|oprindelig meddelelse|original meddelelse|opprinnelig melding"
    "|ursprungligt meddelande|originalmeddelande|alkuperäinen viesti|oryginalna wiadomość|wiadomość oryginalna|původní zpráva"
    "|pôvodná správa|eredeti üzenet|исходное сообщение|оригинальное сообщение|оригінальне повідомлення|оригинално съобщение"
    "|mesaj original|mesajul original|orijinal mesaj|özgün ileti|αρχικό μήνυμα|izvorna poruka|originalna poruka|izvirno sporočilo"
    "|algne sõnum|originali žinutė|tin nhắn gốc|thư gốc|pesan asli|mesej asal|missatge original"
    "|原始邮件|原始郵件|原邮件|元のメッセージ|원본 메시지|원본 메일|الرسالة الأصلية|رسالة أصلية|הודעה מקורית|ข้อความต้นฉบับ"
)
_FORWARDED: Final = (
    "forwarded message|forwarded by|weitergeleitete nachricht|message transféré|message réexpédié|mensaje reenviado|mensagem encaminhada"
    "|mensagem reencaminhada|messaggio inoltrato|messaggio inviato|doorgestuurd bericht|videresendt meddelelse|videresendt melding"
    "|vidarebefordrat meddelande|edelleenlähetetty viesti|välitetty viesti|wiadomość przekazana|przekazana wiadomość|přeposlaná zpráva"
    "|preposlaná správa|továbbított üzenet|пересылаемое сообщение|пересланное сообщение|перенаправленное сообщение"
    "|переслане повідомлення|mesaj redirecționat|mesaj redirecţionat|iletilen ileti|yönlendirilmiş mesaj|προωθημένο μήνυμα"
    "|proslijeđena poruka|posredovano sporočilo|thư đã chuyển tiếp|pesan terusan|missatge reenviat"
    "|转发的邮件|轉寄郵件|转发邮件|転送メッセージ|전달된 메시지|رسالة معاد توجيهها|הודעה שהועברה|הודעה מועברת"
)
SEPARATOR: Final = re.compile(rf"\s*[-*=_—]{{1,40}}\s*(?:{_ORIGINAL})\s*(?:[-*=_—:]|$)", re.IGNORECASE)
FORWARD: Final = re.compile(
    rf"\s*(?:[-*=_—]{{2,40}}\s*(?:{_FORWARDED})|(?:begin forwarded message|début du message (?:réexpédié|transféré)"
    r"|anfang der weitergeleiteten (?:nachricht|e-mail)|inicio del mensaje reenviado|inizio messaggio inoltrato"
    r"|begin doorgestuurd bericht|início da mensagem (?:encaminhada|reencaminhada)|start på videresendt besked)\s*:)",
    re.IGNORECASE,
)
FORWARD_SUBJECT: Final = re.compile(r"\s*(?:fwd?|wg|tr|rv|enc|i|doorst|vb|vs|pd|转发|轉寄)\s?[:：]\s*\S", re.IGNORECASE)

_FROM_STRONG: Final = (
    "from|von|expéditeur|remitente|remetente|mittente|afzender|avsändare|avsender|afsender|lähettäjä|nadawca|odesílatel|odosielateľ"
    "|feladó|от кого|отправитель|від кого|відправник|подател|expeditor|gönderen|kimden|αποστολέας|pošiljatelj|saatja|sūtītājs|siuntėjas"
    "|发件人|寄件者|寄件人|發件人|差出人|보낸 사람|보낸사람|المرسل|שולח|người gửi|pengirim|dari|ผู้ส่ง"
)
_FROM_SHORT: Final = "de|da|van|fra|från|od|от|від|din|من|מאת|από|kimden|från|mistä|no|nuo|kellelt|từ"
_OTHER: Final = (
    "sent|date|to|cc|bcc|subject|reply-to|received|importance|attachments|gesendet|datum|an|betreff|kopie|antwort an|envoyé|date|à|objet"
    "|enviado|fecha|para|asunto|enviada|enviado em|data|assunto|inviato|a|oggetto|verzonden|aan|onderwerp|sendt|dato|til|emne|skickat|till"
    "|ämne|lähetetty|päivämäärä|vastaanottaja|aihe|wysłano|do|temat|odesláno|komu|předmět|odoslané|predmet|elküldve|dátum|címzett|tárgy"
    "|дата|отправлено|кому|тема|надіслано|изпратено|до|относно|trimis|către|subiect|gönderildi|kime|konu|tarih|στάλθηκε|ημερομηνία|προς"
    "|θέμα|poslano|za|发送时间|发送日期|发送|日期|收件人|抄送|主题|寄件日期|收件者|主旨|傳送時間|送信日時|日時|宛先|件名|보낸 날짜|보낸날짜|날짜|받는 사람|받는사람|제목"
    "|التاريخ|تاريخ الإرسال|إلى|الموضوع|תאריך|נשלח|אל|נושא|ngày|đến|chủ đề|dikirim|kepada|perihal"
)
FROM_STRONG: Final = re.compile(rf"\s*[*_]{{0,2}}(?:{_FROM_STRONG})[*_]{{0,2}}(?:\s?[:：]|\s\s)", re.IGNORECASE)
FROM_SHORT: Final = re.compile(rf"\s*[*_]{{0,2}}(?:{_FROM_SHORT})[*_]{{0,2}}\s?[:：]", re.IGNORECASE)
OTHER_FIELD: Final = re.compile(rf"\s*[*_]{{0,2}}(?:{_OTHER})[*_]{{0,2}}(?:\s?[:：]|\s\s)", re.IGNORECASE)
FIELD_IN_LINE: Final = re.compile(rf"\s(?:{_OTHER})(?:\s?[:：]|\s\s)", re.IGNORECASE)

_LEADS: Final = (  # the first words of "On <date>, <name> wrote:", the verb, and whether the name follows the verb
    r"On\b.{1,300}\b(?:wrote|writes)",
    r"On\b.{1,300}@.{1,200}\bsent",
    r"(?:Le|Il y a)\b.{1,300}\ba écrit",
    r"El\b.{1,300}\bescribió",
    r"(?:El|A)\b.{1,300}\bva escriure",
    r"(?:Em|A|No dia|Na)\b.{1,300}\bescreveu",
    r"(?:Il|In data|Il giorno)\b.{1,300}\b(?:ha scritto|scrive)",
    r"(?:Am|Um)\b.{1,300}\b(?:schrieb|geschrieben)\b.{0,100}",
    r"Op\b.{1,300}\b(?:schreef|geschreven)\b.{0,100}",
    r"(?:Den|På|Kl|Ons|Man|Tir|Tor|Fre|Lør|Søn|Mån|Tis|Lör|Sön|Il|Þann)\b.{1,300}\b(?:skrev|skrifaði)\b.{0,100}",
    r"Vào\b.{1,300}\b(?:đã viết|viết)",
    r"Pada\b.{1,300}\bmenulis",
    r"(?:Στις|Την)\b.{1,300}έγραψε",
    r"Dana\b.{1,300}\b(?:je napisao|je napisala|napisao je|je pisao)\b.{0,100}",
    r"(?:Dne|Dňa|Dňa)\b.{1,300}\b(?:napsal|napísal|napsala|napísala)\b.{0,100}",
    r"V\b.{1,300}\bje .{0,100}napisal\w*.{0,100}",
    r"(?:في|بتاريخ)\s.{1,300}كتب.{0,100}",
    r"(?:در|در تاریخ)\s.{1,300}نوشت",
    r"(?:ב|בתאריך|ביום)\S{0,3}\s?.{1,300}(?:כתב|כתבה|מאת).{0,100}",
)
LEAD: Final = re.compile(rf"\s*(?:{'|'.join(_LEADS)})\s*[:：]\W{{0,3}}$", re.IGNORECASE | re.DOTALL)
_VERBS: Final = (
    r"\b(?:wrote|writes|sent|said)|a écrit|escribió|escreveu|ha scritto|schrieb|schreef|skrev|napisał(?:a|\(a\))?|pisze|yazdı|a scris"
    r"|написал(?:а|\(а\))?|писал(?:а|\(а\))?|пишет|написав|написала|пише|написа|napsal(?:a|\(a\))?|napísal(?:a|\(a\))?|ezt írta.{0,100}|írta"
    r"|kirjoitti|kirjutas|rašė|rakstīja|έγραψε|menulis|đã viết|va escriure|je napisao|je napisala|je napisal(?:a|\(a\))?"
    r"|写道|寫道|写了|のメッセージ|は書きました|書きました|さんは.{0,40}書きました|님이 작성|이\(가\) 작성|작성했습니다|님의 말씀|썼습니다"
    r"|كتب|كتبت|نوشت|כתב|כתבה|เขียนว่า|ने लिखा"
)
VERB_LAST: Final = re.compile(rf"(?:{_VERBS})\s*[:：]\W{{0,3}}$", re.IGNORECASE)
NAME_LAST: Final = re.compile(r"[<(\[]\s*[^\s<>()@]{1,64}@[^\s<>()]{3,190}[>)\]]\s*[:：]$")
DASHED: Final = re.compile(r"\s*-{2,20}\s.{1,300}\bwrote\s*-{2,20}\s*$", re.IGNORECASE)
GLUED: Final = re.compile(
    r"\sOn (?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\w{0,6},? |\d)[^\n]{0,200}?<[^<>\s@]{1,64}@[^<>\s]{1,190}> wrote:\s*(?:>|$)",
    re.IGNORECASE,
)
MARKS: Final = frozenset(">-*=_—")  # one of these begins what needs no colon: quotes, SEPARATOR, FORWARD, RULE, DASHED
RULE: Final = re.compile(r"\s*[_*=-]{5,200}\s*$")
SIGNATURE: Final = re.compile(r"--\s*$")

BOUNCE: Final = re.compile(  # of lower-case text: so the search is told by first letters where to look
    r"reporting-mta:|final-recipient:|\*\* (?:address not found|message (?:blocked|not delivered)|delivery incomplete) \*\*"
    r"|delivery has failed to these recipients|message to .{1,200} (?:couldn['’]t|could not) be delivered"
    r"|rejected your message to the following|undeliverable:|this is the mail (?:system|delivery)|mail delivery failed"
    r"|undelivered mail returned|delivery status notification|message (?:wasn['’]t|was not) delivered to"
)
DEVICE: Final = re.compile(
    r"(?:sent|get|posted|composed|envoyé|enviado|enviada|inviato|verstuurd|verzonden|gesendet|von meinem|skickat|sendt|lähetetty|wysłane|wysłano"
    r"|отправлено|надіслано|odesláno|gönderildi|trimis|发自|發自|从我的|來自|iPhoneから|から送信)\b.{0,60}"
    r"\b(?:iphone|ipad|android|samsung|galaxy|blackberry|huawei|xiaomi|pixel|nokia|windows|mobile|smartphone|handy|phone|outlook|yahoo|gmail"
    r"|proton ?mail|fastmail|mail|thunderbird|spark|superhuman|ios|телефон\w*|手机|手機)\b.{0,40}$"
    r"|(?:发自|發自).{0,30}$|.{0,20}iPhoneから送信$|iPhone から送信$",
    re.IGNORECASE,
)
DISCLAIMER: Final = re.compile(
    r"intended (?:solely|only|exclusively) for|if you (?:are not|have received) (?:the intended|this (?:e-?mail|message|communication) in error)"
    r"|(?:e-?mail|message|communication|information)\b.{0,120}\b(?:is|are|may be|contains?)\b.{0,80}\bconfidential"
    r"|diese (?:e-?mail|nachricht) (?:enthält|ist) vertraulich|ce (?:message|courriel|mail)\b.{0,120}\bconfidentiel"
    r"|este (?:mensaje|correo|e-?mail)\b.{0,120}\bconfidencial|questo messaggio\b.{0,120}\bconfidenzial"
    r"|please consider the environment before printing|(?:virus-free|scanned for viruses)\b.{0,80}$|click here to unsubscribe"
    r"|to unsubscribe from this (?:group|list)|you (?:are receiving|received) this (?:e-?mail|message) because",
    re.IGNORECASE | re.DOTALL,
)
