"""The protocol's requests, each one verb of the mailbox. Importing this loads the protocol's library; `app` does so late."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler, validate_request_params
from a2a.server.routes.common import DefaultServerCallContextBuilder
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors as a2a
from google.protobuf import json_format
from starlette.requests import Request

from postroom import errors
from postroom.interfaces.a2a.cards import MODES
from postroom.interfaces.a2a.shapes import FILES_ALONE, Shapes
from postroom.interfaces.a2a.tasks import COMPLETED, ENDED, INPUT_REQUIRED, SETTLED, SUBMITTED, Tasks, TaskView
from postroom.mailbox.room import Mailbox
from postroom.mailbox.sending import Letter
from postroom.model.principal import Principal

_HOLD_S: Final = 25.0
_STREAM_S: Final = 3600.0
_PAGE, _PAGE_MAX = 50, 100
_KINDS: Final[tuple[tuple[type[errors.PostroomError], type[a2a.A2AError]], ...]] = (
    (errors.NotFound, a2a.TaskNotFoundError),
    (errors.Invalid, a2a.InvalidParamsError),
    (errors.Conflict, a2a.InvalidParamsError),
    (errors.Forbidden, a2a.UnsupportedOperationError),
    (errors.Refused, a2a.UnsupportedOperationError),
    (errors.PostroomError, a2a.InternalError),
)


class Contexts(DefaultServerCallContextBuilder):
    """Carries the caller the HTTP surface found into the protocol's context."""

    def build(self, request: Request) -> ServerCallContext:
        """The context of one request."""
        context = super().build(request)
        context.state["principal"] = request.scope["state"]["principal"]
        return context


class Handler(RequestHandler):
    """A2A over one mailbox."""

    def __init__(self, mailbox: Mailbox, origin: str) -> None:
        self._mailbox = mailbox
        self._tasks = Tasks(mailbox)
        self._shapes = Shapes(origin)

    @validate_request_params
    async def on_message_send(self, params: pb.SendMessageRequest, context: ServerCallContext) -> pb.Task:
        """Store the message; unless asked to return at once, hold until it is answered or a bound passed."""
        with _told():
            principal = _principal(context)
            latest = await self._send(principal, params, context.tenant)
            if not params.configuration.return_immediately:
                async for view in self._tasks.follow(principal, latest.task_id, _HOLD_S):
                    latest = view
                    if view.state in SETTLED:
                        break
            return self._shapes.task(latest)

    @validate_request_params
    async def on_message_send_stream(
        self, params: pb.SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any, None]:
        """Store the message and follow its task."""
        with _told():
            view = await self._send(_principal(context), params, context.tenant)
            async for event in self._follow(_principal(context), view.task_id):
                yield event

    @validate_request_params
    async def on_subscribe_to_task(
        self, params: pb.SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any, None]:
        """Follow a task that has not ended."""
        with _told():
            view = await self._tasks.get(_principal(context), params.id)
            if view.state in ENDED:
                raise a2a.UnsupportedOperationError("the task has ended")
            async for event in self._follow(_principal(context), view.task_id):
                yield event

    @validate_request_params
    async def on_get_task(self, params: pb.GetTaskRequest, context: ServerCallContext) -> pb.Task:
        """One task as it stands."""
        with _told():
            history = params.history_length if params.HasField("history_length") else None
            return self._shapes.task(await self._tasks.get(_principal(context), params.id), history)

    @validate_request_params
    async def on_list_tasks(self, params: pb.ListTasksRequest, context: ServerCallContext) -> pb.ListTasksResponse:
        """The caller's tasks, newest first."""
        with _told():
            size = params.page_size if params.HasField("page_size") else _PAGE
            if not 1 <= size <= _PAGE_MAX:
                raise a2a.InvalidParamsError(f"pageSize must be between 1 and {_PAGE_MAX}")
            if params.page_token and not (params.page_token.isascii() and params.page_token.isdigit()):
                raise a2a.InvalidParamsError("the page token is not one of this list")
            before = int(params.page_token or 1 << 62)
            views, more = await self._tasks.listed(
                _principal(context), context_id=params.context_id, before=min(before, 1 << 62), count=size
            )
            wanted = [view for view in views if params.status in (0, pb.TaskState.Value(view.state))]
            token = str(views[-1].message.seq) if more and views else ""
            shown = [self._shapes.task(view, 0, artifacts=params.include_artifacts) for view in wanted]
            return pb.ListTasksResponse(tasks=shown, next_page_token=token, page_size=size, total_size=len(shown))

    @validate_request_params
    async def on_cancel_task(self, params: pb.CancelTaskRequest, context: ServerCallContext) -> pb.Task:
        """Take the message back, unless it was taken up already; what the agent asks about is the caller's to end."""
        with _told():
            principal = _principal(context)
            view = await self._tasks.get(principal, params.id)
            if view.state not in (SUBMITTED, INPUT_REQUIRED):
                raise a2a.TaskNotCancelableError("the agent has taken it up, or it has ended")
            await self._mailbox.withdraw(principal, view.message.seq)
            return self._shapes.task(await self._tasks.get(principal, params.id))

    async def on_get_extended_agent_card(
        self, params: pb.GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> pb.AgentCard:
        """There is none beside the public one."""
        raise a2a.ExtendedAgentCardNotConfiguredError

    async def on_create_task_push_notification_config(self, params: Any, context: ServerCallContext) -> Any:
        """Not offered."""
        raise a2a.PushNotificationNotSupportedError

    async def on_get_task_push_notification_config(self, params: Any, context: ServerCallContext) -> Any:
        """Not offered."""
        raise a2a.PushNotificationNotSupportedError

    async def on_list_task_push_notification_configs(self, params: Any, context: ServerCallContext) -> Any:
        """Not offered."""
        raise a2a.PushNotificationNotSupportedError

    async def on_delete_task_push_notification_config(self, params: Any, context: ServerCallContext) -> None:
        """Not offered."""
        raise a2a.PushNotificationNotSupportedError

    async def _send(self, principal: Principal, params: pb.SendMessageRequest, tenant: str) -> TaskView:
        """A new task, or one more message to a task that asked back. `tenant` is the path's."""
        message = params.message
        text, files = _content(message)
        if message.task_id:
            view = await self._tasks.get(principal, message.task_id)
            if view.state in ENDED:
                raise a2a.UnsupportedOperationError("the task has ended; begin another in the same context")
            letter = Letter(to=view.message.to, text=text, attachments=files, reply_to=view.history[-1].seq, key=_key(message))
            await self._mailbox.send(principal, letter)
            return await self._tasks.get(principal, message.task_id)
        letter = Letter(
            to=_addressee(params, tenant), text=text, attachments=files, thread=message.context_id or None, key=_key(message)
        )
        stored = await self._mailbox.send(principal, letter)
        return await self._tasks.get(principal, f"task-{stored.seq}")

    async def _follow(self, principal: Principal, task_id: str) -> AsyncGenerator[Any, None]:
        first = True
        async for view in self._tasks.follow(principal, task_id, _STREAM_S):
            if first:
                yield self._shapes.task(view)
                first = False
                continue
            if view.state == COMPLETED and view.answer is not None:
                artifact = self._shapes.artifact(view.answer)
                yield pb.TaskArtifactUpdateEvent(
                    task_id=view.task_id, context_id=view.message.thread, artifact=artifact, last_chunk=True
                )
            yield pb.TaskStatusUpdateEvent(task_id=view.task_id, context_id=view.message.thread, status=self._shapes.status(view))


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Our errors as the protocol's."""
    try:
        yield
    except errors.PostroomError as problem:
        kind = next(theirs for ours, theirs in _KINDS if isinstance(problem, ours))
        said = f"{problem.message}; {problem.fix}" if problem.fix else problem.message
        raise kind(said) from problem


def _principal(context: ServerCallContext) -> Principal:
    principal: Principal = context.state["principal"]
    return principal


def _addressee(params: pb.SendMessageRequest, tenant: str) -> str:
    if params.tenant or tenant:
        return str(params.tenant or tenant)
    for metadata in (params.metadata, params.message.metadata):
        if "to" in metadata and isinstance(metadata["to"], str):
            return str(metadata["to"])
    raise a2a.InvalidParamsError('name the agent: as the tenant, or as "to" in the metadata')


def _key(message: pb.Message) -> str:
    return f"a2a:{message.message_id}"


def _content(message: pb.Message) -> tuple[str, list[dict[str, str]]]:
    """The text of a message, and its files."""
    texts: list[str] = []
    files: list[dict[str, str]] = []
    for part in message.parts:
        kind = part.WhichOneof("content")
        stated = part.media_type.partition(";")[0].strip().lower()
        if stated and stated not in MODES:
            raise a2a.ContentTypeNotSupportedError(f"{stated} is not among the input modes of the agent card")
        if kind == "text":
            texts.append(part.text)
        elif kind == "data":
            texts.append(json_format.MessageToJson(part.data, indent=None))
        elif kind == "url":
            texts.append(part.url)
        elif kind == "raw":
            media_type = part.media_type or "application/octet-stream"
            files.append(
                {"content": base64.b64encode(part.raw).decode(), "name": part.filename or "file", "mediaType": media_type}
            )
    return "\n\n".join(texts) or (FILES_ALONE if files else ""), files
