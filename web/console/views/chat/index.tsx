import { useEffect, useRef, useState } from 'react';
import { asFault, type Fault } from '../../api/fault.ts';
import { Button, Empty, Page, Panel } from '../../parts/index.tsx';
import { useInfo } from '../home/info.ts';
import type { Turn } from './answer.ts';
import css from './chat.module.css';
import { Composer } from './composer.tsx';
import { conversation, isBusy as isBusyNow, useConversation } from './conversation.ts';
import { ContextUsage } from './context-usage.tsx';
import { samplingBody } from './sampling.ts';
import { SamplingForm } from './sampling-form.tsx';
import { AssistantTurnView, UserTurnView } from './turn.tsx';
import { useSampling } from './use-sampling.ts';

/** Chat with the resident model, with the probability and arrival time of each token. */
export default function Chat() {
  const conversationState = useConversation();
  const { turns, system } = conversationState;
  const { sampling, set, reset } = useSampling();
  const info = useInfo();
  const isBusy = isBusyNow(conversationState);
  const [isOpen, setOpen] = useState(() => matchMedia('(min-width: 1100px)').matches);
  useEffect(() => conversation.stop, []);
  const model = info.data?.model;
  return (
    <Page
      title="Chat"
      lead={
        model
          ? `Chat with ${model.id} on this host. The conversation exists only in this page: it survives a change of view, but not a reload.`
          : 'Chat with the resident model.'
      }
      tools={turns.length > 0 && <Button onClick={() => conversation.clear()}>New conversation</Button>}
    >
      <div className={css['columns']}>
        <div className={css['conversation']}>
          {turns.length === 0 && (
            <Panel>
              <Empty title="No messages yet.">
                {info.data && !model
                  ? 'The host has no model, or it is still loading. The home page shows its state.'
                  : 'Write a message below. Each token of the answer is colored by its probability.'}
              </Empty>
            </Panel>
          )}
          {turns.map((turn) =>
            turn.role === 'user' ? (
              <UserTurnView
                key={turn.id}
                turn={turn}
                isBusy={isBusy}
                onEdit={(text) => conversation.edit(turn.id, text, samplingBody(sampling))}
              />
            ) : (
              <AssistantTurnView
                key={turn.id}
                turn={turn}
                isBusy={isBusy}
                onRegenerate={() => conversation.regenerate(turn.id, samplingBody(sampling))}
              />
            ),
          )}
          <AnswerStatus turns={turns} />
          <Composer
            isBusy={isBusy}
            send={(text) => conversation.send(text, samplingBody(sampling))}
            stop={() => conversation.stop()}
          />
          <ContextUsage turns={turns} length={model?.context_length} />
        </div>
        <details
          className={css['side']}
          open={isOpen}
          onToggle={({ currentTarget }) => setOpen(currentTarget.open)}
        >
          <summary>Sampling and system prompt</summary>
          <SamplingForm
            sampling={sampling}
            set={set}
            reset={reset}
            system={system}
            setSystem={conversation.setSystem}
            fault={faultOf(turns)}
          />
        </details>
      </div>
    </Page>
  );
}

/** Announces progress to screen readers, and scrolls the growing answer into view. */
function AnswerStatus({ turns }: { turns: readonly Turn[] }) {
  const end = useRef<HTMLParagraphElement>(null);
  const last = turns.at(-1);
  const state = last?.role === 'assistant' ? last.state : undefined;
  const length = last?.text.length ?? 0;
  useEffect(() => {
    if (state === 'waiting' || state === 'writing') end.current?.scrollIntoView({ block: 'nearest' });
  }, [state, length]);
  const statusTexts = {
    waiting: 'Processing the prompt.',
    writing: 'Generating the answer.',
    done: 'The answer is complete.',
    stopped: 'The answer was stopped.',
    failed: 'The answer failed.',
  };
  return (
    <p ref={end} className={css['progress']} role="status">
      {state && statusTexts[state]}
    </p>
  );
}

function faultOf(turns: readonly Turn[]): Fault | undefined {
  const last = turns.at(-1);
  return last?.role === 'assistant' && last.error !== undefined ? asFault(last.error) : undefined;
}
