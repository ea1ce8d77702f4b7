import { useCallback, useEffect, useRef, useState } from 'react';
import { Redirect, useLocation, useSearch } from 'wouter';
import { asFault, type Fault } from '../../../api/fault.ts';
import { Button, Empty, Loading, Page, Panel, partsCss } from '../../../ui/index.tsx';
import { useInfo } from '../home/info.ts';
import { isBusy as isBusyNow } from '../../../chat/chats.ts';
import { pathOf, type TurnPosition, versionsOf } from '../../../chat/tree.ts';
import type { ChatConversation, ToolResult, Turn } from './answer.ts';
import { AssistantTurnView } from './assistant-turn.tsx';
import css from './chat.module.css';
import { ChatList } from './chat-list.tsx';
import { chats, useChats } from './chats.ts';
import { Composer } from './composer.tsx';
import { ContextUsage } from './context-usage.tsx';
import { useFollowEnd } from './follow-end.ts';
import { samplingBody } from './sampling.ts';
import { SamplingForm } from './sampling-form.tsx';

import { useSampling } from './use-sampling.ts';
import { UserTurnView } from './user-turn.tsx';

/** Address of the chat that was shown last, to which the view returns. */
let lastAddress: string | undefined;

/** `/console/chat` is a new chat, `/console/chat/{id}` one of this browser. */
export default function Chat() {
  const [location, navigate] = useLocation();
  const search = useSearch();
  const { conversations, fresh, isLoaded } = useChats();
  const id = location.split('/')[3];
  const address = search === '' ? location : `${location}?${search}`;
  const conversation = id === undefined ? fresh : conversations.find((one) => one.id === id);
  const isShown = id !== undefined && conversation !== undefined;
  useEffect(() => {
    if (isShown) lastAddress = address;
  }, [isShown, address]);
  const returnTo = lastAddress;
  const lastId = returnTo?.split(/[/?]/)[3];
  if (returnTo !== undefined && id === undefined && conversations.some((one) => one.id === lastId))
    return <Redirect to={returnTo} replace />;
  const startNew = () => {
    lastAddress = undefined;
    navigate(search === '' ? '/console/chat' : `/console/chat?${search}`);
  };
  const isNew = id === undefined && fresh.turns.length === 0;
  return (
    <Page title="Chat" tools={!isNew && <Button onClick={startNew}>New chat</Button>}>
      {conversation ? (
        <ChatView key={conversation.id} conversation={conversation} search={search} />
      ) : isLoaded ? (
        <Panel>
          <Empty title="Chat not found">It was deleted, or is stored in another browser.</Empty>
        </Panel>
      ) : (
        <Loading what="the chats of this browser" />
      )}
    </Page>
  );
}

function ChatView({ conversation, search }: { conversation: ChatConversation; search: string }) {
  const { id, system } = conversation;
  const [location, navigate] = useLocation();
  const { sampling, set, reset } = useSampling();
  const info = useInfo();
  const model = info.data?.model;
  const turns = pathOf(conversation);
  const isBusy = isBusyNow(conversation);
  const list = useRef<HTMLDivElement>(null);
  const { isAtEnd, goToEnd } = useFollowEnd(list, isBusy, turns.length > 0);
  const [isListOpen, setListOpen] = useState(() => matchMedia('(min-width: 1100px)').matches);
  const [areSettingsOpen, setSettingsOpen] = useState(() => matchMedia('(min-width: 1400px)').matches);
  const body = useCallback(() => samplingBody(sampling), [sampling]);
  const edit = useCallback(
    (turn: TurnPosition, text: string) => chats.edit(id, turn, text, body()),
    [id, body],
  );
  const regenerate = useCallback((turn: Turn) => chats.regenerate(id, turn, body()), [id, body]);
  const sendResults = useCallback(
    (turn: Turn, results: readonly ToolResult[]) => chats.sendResults(id, turn, results, body()),
    [id, body],
  );
  const choose = useCallback((turn: TurnPosition) => chats.choose(id, turn), [id]);
  const send = (text: string) => {
    chats.send(id, text, body());
    goToEnd();
    const address = `/console/chat/${id}`;
    if (location !== address) navigate(search === '' ? address : `${address}?${search}`, { replace: true });
  };
  return (
    <div className={css['columns']}>
      <details
        className={css['side']}
        open={isListOpen}
        onToggle={({ currentTarget }) => setListOpen(currentTarget.open)}
      >
        <summary>Chats</summary>
        <ChatList shownId={id} search={search} />
      </details>
      <div className={css['conversation']}>
        <div ref={list} className={css['turns']}>
          {turns.length === 0 && (
            <Empty title={model ? `Chat with ${model.id}` : 'No messages yet.'}>
              {info.data && !model
                ? 'The host has no model, or it is still loading. The home page shows its state.'
                : 'Write a message below. The chat stays in this browser.'}
            </Empty>
          )}
          {turns.map((turn) => {
            const versions = versionsOf(conversation, turn);
            // Versions have the same key, so that the focus and what is unfolded stay.
            return turn.role === 'user' ? (
              <UserTurnView key={turn.parent} {...{ turn, versions, isBusy, edit, choose }} />
            ) : (
              <AssistantTurnView
                key={turn.parent}
                {...{ turn, versions, isBusy, regenerate, choose }}
                sendResults={turn === turns.at(-1) ? sendResults : undefined}
              />
            );
          })}
        </div>
        <AnswerStatus turns={turns} />
        <div className={css['dock']}>
          {!isAtEnd && turns.length > 0 && (
            <Button className={css['toEnd']} onClick={goToEnd}>
              ↓ Go to the end
            </Button>
          )}
          <Composer isBusy={isBusy} send={send} stop={() => chats.stop(id)} />
          <ContextUsage turns={turns} length={model?.context_length} />
        </div>
      </div>
      <details
        className={css['side']}
        open={areSettingsOpen}
        onToggle={({ currentTarget }) => setSettingsOpen(currentTarget.open)}
      >
        <summary>Settings</summary>
        <SamplingForm
          sampling={sampling}
          set={set}
          reset={reset}
          system={system}
          setSystem={(text) => chats.setSystem(id, text)}
          fault={faultOf(turns)}
        />
      </details>
    </div>
  );
}

const statusTexts = {
  waiting: 'Processing the prompt.',
  writing: 'Generating the answer.',
  done: 'The answer is complete.',
  stopped: 'The answer was stopped.',
  failed: 'The answer failed.',
};

/** Announces progress to screen readers. */
function AnswerStatus({ turns }: { turns: readonly Turn[] }) {
  const last = turns.at(-1);
  return (
    <p className={partsCss['visuallyHidden']} role="status">
      {last?.role === 'assistant' && statusTexts[last.state]}
    </p>
  );
}

function faultOf(turns: readonly Turn[]): Fault | undefined {
  const last = turns.at(-1);
  return last?.role === 'assistant' && last.error !== undefined ? asFault(last.error) : undefined;
}
