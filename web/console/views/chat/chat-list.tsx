import { memo, useState } from 'react';
import { Link, useLocation } from 'wouter';
import { formatRelativeTime } from '../../../ui/format.ts';
import { Button, Confirm, Dialog, Field, WindowedList } from '../../../ui/index.tsx';
import type { ChatConversation } from './answer.ts';
import css from './chat.module.css';
import { chats, useChats } from './chats.ts';
import { exportJson, exportMarkdown, fileNameOf, saveFile } from './export.ts';

/** The conversations of this browser: open, rename, export, delete; and whether they are stored. */
export function ChatList({ shownId, search }: { shownId: string; search: string }) {
  const { conversations, isHistoryEnabled, historyError } = useChats();
  const [, navigate] = useLocation();
  const [renamed, rename] = useState<ChatConversation>();
  const [deleted, askDelete] = useState<ChatConversation>();
  const [isForgetting, askForget] = useState(false);
  return (
    <div className={css['chatList']}>
      {conversations.length === 0 ? (
        <p className={css['muted']}>No chats yet.</p>
      ) : (
        <WindowedList
          label="Chats"
          what="chats"
          items={conversations}
          keyOf={({ id }) => id}
          textOf={({ title }) => title}
          estimatePx={40}
        >
          {(conversation) => (
            <ChatItem
              conversation={conversation}
              isShown={conversation.id === shownId}
              search={search}
              rename={rename}
              askDelete={askDelete}
            />
          )}
        </WindowedList>
      )}
      <label className={css['check']}>
        <input
          type="checkbox"
          checked={isHistoryEnabled}
          onChange={({ target }) => {
            if (target.checked || conversations.length === 0) void chats.enableHistory(target.checked);
            else askForget(true);
          }}
        />
        Keep chats in this browser
      </label>
      {historyError !== undefined && (
        <p className={css['muted']} role="status">
          This browser does not store chats ({historyError}). They last until the page is closed.
        </p>
      )}
      <RenameDialog conversation={renamed} close={() => rename(undefined)} />
      <Confirm
        title="Delete the chat"
        isOpen={deleted !== undefined}
        action="Delete"
        onClose={() => askDelete(undefined)}
        onConfirm={() => {
          if (deleted) chats.delete(deleted.id);
          askDelete(undefined);
          navigate('/console/chat');
        }}
      >
        <p>“{deleted?.title}” is deleted from this browser, with all its versions.</p>
      </Confirm>
      <Confirm
        title="Delete the stored chats"
        isOpen={isForgetting}
        action="Delete"
        onClose={() => askForget(false)}
        onConfirm={() => {
          askForget(false);
          void chats.enableHistory(false);
        }}
      >
        <p>The stored chats are deleted. Those listed here last until the page is closed.</p>
      </Confirm>
    </div>
  );
}

/** Memoized, because the list changes with every part of an answer. */
const ChatItem = memo(function ChatItem(props: {
  conversation: ChatConversation;
  isShown: boolean;
  search: string;
  rename: (conversation: ChatConversation) => void;
  askDelete: (conversation: ChatConversation) => void;
}) {
  const { conversation, isShown, search, rename, askDelete } = props;
  return (
    <>
      <Link
        href={`/console/chat/${conversation.id}${search === '' ? '' : `?${search}`}`}
        className={css['chatLink']}
        {...(isShown ? { 'aria-current': 'page' as const } : {})}
      >
        <span>{conversation.title}</span>
        <small>{formatRelativeTime(conversation.updatedAt)}</small>
      </Link>
      {isShown && (
        <div className={css['actions']}>
          <Button className={css['action']} onClick={() => rename(conversation)}>
            Rename
          </Button>
          <Button
            className={css['action']}
            aria-label="Export as Markdown"
            onClick={() =>
              saveFile(`${fileNameOf(conversation.title)}.md`, 'text/markdown', exportMarkdown(conversation))
            }
          >
            Markdown
          </Button>
          <Button
            className={css['action']}
            aria-label="Export as JSON"
            onClick={() =>
              saveFile(`${fileNameOf(conversation.title)}.json`, 'application/json', exportJson(conversation))
            }
          >
            JSON
          </Button>
          <Button className={css['action']} onClick={() => askDelete(conversation)}>
            Delete
          </Button>
        </div>
      )}
    </>
  );
});

function RenameDialog({
  conversation,
  close,
}: {
  conversation: ChatConversation | undefined;
  close: () => void;
}) {
  return (
    <Dialog title="Rename the chat" isOpen={conversation !== undefined} onClose={close}>
      {conversation && <RenameForm conversation={conversation} close={close} />}
    </Dialog>
  );
}

function RenameForm({ conversation, close }: { conversation: ChatConversation; close: () => void }) {
  const [title, setTitle] = useState(conversation.title);
  return (
    <form
      className={css['dialogForm']}
      onSubmit={(event) => {
        event.preventDefault();
        if (title.trim() === '') return;
        chats.rename(conversation.id, title.trim());
        close();
      }}
    >
      <Field label="Title">
        {(control) => (
          <input {...control} autoFocus value={title} onChange={({ target }) => setTitle(target.value)} />
        )}
      </Field>
      <div className={css['actions']}>
        <Button type="submit" kind="primary" disabled={title.trim() === ''}>
          Rename
        </Button>
        <Button onClick={close}>Cancel</Button>
      </div>
    </form>
  );
}
