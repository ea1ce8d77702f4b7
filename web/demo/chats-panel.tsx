import { useState } from 'react';
import { useChatsState } from '../chat/chats.ts';
import { formatRelativeTime } from '../ui/format.ts';
import { Button, Confirm, Panel } from '../ui/index.tsx';
import type { Conversations } from './conversation.ts';
import css from './demo.module.css';

/** The chats of this browser: open, delete; and whether they are kept. */
export function ChatsPanel(props: {
  chats: Conversations;
  shownId: string;
  show: (id: string | undefined) => void;
}) {
  const { chats, shownId, show } = props;
  const { conversations, isHistoryEnabled, historyError } = useChatsState(chats);
  const [isClearing, askClear] = useState(false);
  const clear = () => {
    askClear(false);
    show(undefined);
    void chats.clear();
  };
  return (
    <Panel
      title="Chats"
      tools={
        <Button disabled={conversations.length === 0} onClick={() => askClear(true)}>
          Clear all
        </Button>
      }
    >
      {conversations.length === 0 ? (
        <p className={css['quiet']}>No chats yet. Send a message to start one.</p>
      ) : (
        <ul className={css['chats']} aria-label="Chats">
          {conversations.map(({ id, title, updatedAt }) => (
            <li key={id}>
              <button
                type="button"
                className={css['chatButton']}
                aria-current={id === shownId ? 'true' : undefined}
                onClick={() => show(id)}
              >
                <span>{title}</span>
                <small>{formatRelativeTime(updatedAt)}</small>
              </button>
              <Button
                aria-label={`Delete ${title}`}
                onClick={() => {
                  if (id === shownId) show(undefined);
                  chats.delete(id);
                }}
              >
                Delete
              </Button>
            </li>
          ))}
        </ul>
      )}
      <label className={css['check']}>
        <input
          type="checkbox"
          checked={isHistoryEnabled}
          onChange={({ target }) => void chats.enableHistory(target.checked)}
        />
        Keep chats in this browser
      </label>
      <p className={css['quiet']}>
        {historyError === undefined
          ? 'Chats are stored on this device only. Without this setting they last until the page is closed.'
          : `This browser does not store chats (${historyError}). They last until the page is closed.`}
      </p>
      <Confirm
        title="Clear all chats"
        isOpen={isClearing}
        action="Clear all"
        onClose={() => askClear(false)}
        onConfirm={clear}
      >
        <p>All chats of this page are deleted from this browser.</p>
      </Confirm>
    </Panel>
  );
}
