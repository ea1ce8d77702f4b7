import { type ReactNode, useCallback, useEffect, useRef, useState } from 'react';
import { isBusy as isBusyNow, useChatsState } from '../chat/chats.ts';
import { MessageView } from '../chat/message.tsx';
import { type Conversation, pathOf, type TurnPosition, versionsOf } from '../chat/tree.ts';
import { Badge, Button, Panel } from '../ui/index.tsx';
import type { DeviceFacts } from '../engine/types.ts';
import { AnswerTurnView } from './answer-view.tsx';
import type { ChatBackend, Conversations, Turn } from './conversation.ts';
import css from './demo.module.css';
import { examples } from './examples.ts';
import type { Settings } from './settings.ts';

/** Keeps growing text scrolled to its end, unless the user has scrolled up. */
function useAutoScroll(changes: unknown, isGrowing: boolean) {
  const ref = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    const box = ref.current;
    if (box && isGrowing && isAtEnd.current) box.scrollTop = box.scrollHeight;
  }, [changes, isGrowing]);
  const onScroll = () => {
    const box = ref.current;
    if (box) isAtEnd.current = box.scrollHeight - box.scrollTop - box.clientHeight < 40;
  };
  const scrollToEnd = () => {
    isAtEnd.current = true;
  };
  return { ref, onScroll, scrollToEnd };
}

function Examples({ choose }: { choose: (prompt: string) => void }) {
  return (
    <div className={css['examples']} role="group" aria-label="Example prompts">
      {examples.map((prompt) => (
        <Button key={prompt} className={css['example']} onClick={() => choose(prompt)}>
          {prompt}
        </Button>
      ))}
    </div>
  );
}

export function ChatPanel(props: {
  chats: Conversations;
  shown: Conversation<Turn>;
  show: (id: string | undefined) => void;
  settings: Settings;
  /** Engines that answer the next prompt; empty until a model is loaded. */
  backends: readonly ChatBackend[];
  isEmbedded: boolean;
  device: DeviceFacts | undefined;
  /** Progress or failure of loading the model. */
  status: ReactNode;
}) {
  const { chats, shown, show, settings, backends, isEmbedded, device, status } = props;
  const { id } = shown;
  const { conversations } = useChatsState(chats);
  // Answers share the GPU, so there is one at a time on this page.
  const isBusy = conversations.some(isBusyNow);
  const turns = pathOf(shown);
  const [draft, setDraft] = useState('');
  const textArea = useRef<HTMLTextAreaElement>(null);
  const { ref, onScroll, scrollToEnd } = useAutoScroll(shown, turns.length > 0);
  const isReady = backends.length > 0;
  const isBlocked = !isReady || isBusy;

  const { system, sampling } = settings;
  const options = useCallback(() => ({ system, sampling, backends }), [system, sampling, backends]);
  const edit = useCallback(
    (turn: TurnPosition, text: string) => {
      show(id);
      void chats.edit(id, turn, { role: 'user', text }, options());
    },
    [chats, id, options, show],
  );
  const regenerate = useCallback(
    (turn: Turn) => void chats.regenerate(id, turn, options()),
    [chats, id, options],
  );
  const choose = useCallback((turn: TurnPosition) => chats.choose(id, turn), [chats, id]);
  const stop = () => {
    for (const conversation of conversations) if (isBusyNow(conversation)) chats.stop(conversation.id);
  };
  const send = (prompt: string) => {
    if (isBlocked || prompt.trim() === '') return;
    scrollToEnd();
    setDraft('');
    show(id);
    void chats.send(id, { role: 'user', text: prompt }, options());
  };
  const useExample = (prompt: string) => {
    if (isBlocked) setDraft(prompt);
    else send(prompt);
    textArea.current?.focus();
  };

  return (
    <Panel
      title="Chat"
      className={css['chat']}
      tools={
        <>
          {device?.fallback === true && <Badge tone="warn">Software adapter: slow</Badge>}
          <Button
            disabled={turns.length === 0}
            onClick={() => {
              stop();
              show(undefined);
              textArea.current?.focus();
            }}
          >
            New chat
          </Button>
        </>
      }
    >
      {status}
      <div
        ref={ref}
        className={css['log']}
        role="log"
        aria-label="Conversation"
        aria-busy={isBusy}
        tabIndex={0}
        onScroll={onScroll}
      >
        {turns.length === 0 ? (
          <div className={css['start']}>
            <p>
              {isEmbedded
                ? 'No messages yet. The embedded model is a toy with 3.67 million parameters. It answers only prompts like these.'
                : 'No messages yet. Write a message, or start with one of these.'}
            </p>
            <Examples choose={useExample} />
          </div>
        ) : (
          <div className={css['turns']}>
            {turns.map((turn) => {
              const versions = versionsOf(shown, turn);
              // Versions have the same key, so that the focus stays.
              return turn.role === 'user' ? (
                <MessageView key={turn.parent} {...{ turn, versions, edit, choose }} isBusy={isBlocked} />
              ) : (
                <AnswerTurnView
                  key={turn.parent}
                  {...{ turn, versions, regenerate, choose }}
                  isBusy={isBlocked}
                />
              );
            })}
          </div>
        )}
      </div>
      <form
        className={css['composer']}
        onSubmit={(event) => {
          event.preventDefault();
          send(draft);
        }}
      >
        <textarea
          ref={textArea}
          id="prompt"
          rows={2}
          value={draft}
          aria-label="Message"
          placeholder="Write a message"
          aria-describedby="prompt-keys"
          onChange={({ target }) => setDraft(target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape' && isBusy) stop();
            // Enter also confirms the composition of an input method.
            if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
            event.preventDefault();
            send(draft);
          }}
        />
        {isBusy ? (
          <Button kind="danger" onClick={stop}>
            Stop
          </Button>
        ) : (
          <Button kind="primary" type="submit" disabled={!isReady || draft.trim() === ''}>
            Send
          </Button>
        )}
      </form>
      <p id="prompt-keys" className={css['keys']}>
        Enter sends the message, Shift+Enter starts a new line, Escape stops the answer.
        {turns.length > 0 && ' Earlier messages are sent as context until you start a new chat.'}
      </p>
    </Panel>
  );
}
