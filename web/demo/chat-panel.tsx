import { type ReactNode, useEffect, useRef, useState, useSyncExternalStore } from 'react';
import { Badge, Button, Panel } from '../ui/index.tsx';
import type { DeviceFacts } from '../engine/types.ts';
import { TurnView } from './answer-view.tsx';
import type { ChatBackend, Conversation } from './conversation.ts';
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
  conversation: Conversation;
  settings: Settings;
  /** Engines that answer the next prompt; empty until a model is loaded. */
  backends: readonly ChatBackend[];
  isEmbedded: boolean;
  device: DeviceFacts | undefined;
  /** Progress or failure of loading the model. */
  status: ReactNode;
}) {
  const { conversation, settings, backends, isEmbedded, device, status } = props;
  const { turns, isBusy } = useSyncExternalStore(conversation.store.subscribe, conversation.store.get);
  const [draft, setDraft] = useState('');
  const textArea = useRef<HTMLTextAreaElement>(null);
  const { ref, onScroll, scrollToEnd } = useAutoScroll(turns, turns.length > 0);
  const isReady = backends.length > 0;

  const send = (prompt: string) => {
    if (!isReady || isBusy || prompt.trim() === '') return;
    scrollToEnd();
    setDraft('');
    void conversation.ask(prompt, { system: settings.system, sampling: settings.sampling, backends });
  };
  const choose = (prompt: string) => {
    if (isReady && !isBusy) send(prompt);
    else setDraft(prompt);
    textArea.current?.focus();
  };

  return (
    <Panel
      title="Chat"
      className={css['chat']}
      tools={
        <>
          {device?.fallback === true && <Badge tone="warn">Software adapter: slow</Badge>}
          <Button disabled={turns.length === 0} onClick={() => conversation.clear()}>
            Clear the conversation
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
                ? 'The embedded model is a toy with 3.67 million parameters. It answers only prompts like these.'
                : 'Write a message, or start with one of these.'}
            </p>
            <Examples choose={choose} />
          </div>
        ) : (
          <ol className={css['turns']}>
            {turns.map((turn) => (
              <TurnView key={turn.id} turn={turn} />
            ))}
          </ol>
        )}
      </div>
      <form
        className={css['composer']}
        onSubmit={(event) => {
          event.preventDefault();
          send(draft);
        }}
      >
        <label className={css['hidden']} htmlFor="prompt">
          Your message
        </label>
        <textarea
          ref={textArea}
          id="prompt"
          rows={2}
          value={draft}
          placeholder="Your message"
          aria-describedby="prompt-keys"
          onChange={({ target }) => setDraft(target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape' && isBusy) conversation.stop();
            // Enter also confirms the composition of an input method.
            if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
            event.preventDefault();
            send(draft);
          }}
        />
        {isBusy ? (
          <Button kind="danger" onClick={() => conversation.stop()}>
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
        {turns.length > 0 && ' Earlier messages are sent as context until you clear the conversation.'}
      </p>
    </Panel>
  );
}
