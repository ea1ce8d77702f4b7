import { useState } from 'react';
import { Badge, Button, Field, FaultNote, Row } from '../../parts/index.tsx';
import { type AssistantTurn, isAnswering, type UserTurn } from './answer.ts';
import css from './chat.module.css';
import { Timeline } from './timeline.tsx';
import { Tokens } from './tokens.tsx';

export function UserTurnView(props: { turn: UserTurn; isBusy: boolean; onEdit: (text: string) => void }) {
  const { turn, isBusy, onEdit } = props;
  const [draft, setDraft] = useState<string>();
  if (draft === undefined)
    return (
      <article className={css['question']} aria-label="Your message">
        <div className={css['text']}>{turn.text}</div>
        <Row>
          <Button disabled={isBusy} onClick={() => setDraft(turn.text)}>
            Edit
          </Button>
        </Row>
      </article>
    );
  return (
    <form
      className={css['question']}
      aria-label="Edit your message"
      onSubmit={(event) => {
        event.preventDefault();
        if (draft.trim() === '') return;
        setDraft(undefined);
        onEdit(draft);
      }}
    >
      <Field label="Your message" hint="The messages after it are removed.">
        {(control) => (
          <textarea
            {...control}
            rows={3}
            autoFocus
            value={draft}
            onChange={({ target }) => setDraft(target.value)}
          />
        )}
      </Field>
      <Row>
        <Button type="submit" kind="primary" disabled={draft.trim() === '' || isBusy}>
          Resend
        </Button>
        <Button onClick={() => setDraft(undefined)}>Cancel</Button>
      </Row>
    </form>
  );
}

const finishReasonTexts: Readonly<Record<string, string>> = {
  stop: 'complete',
  length: 'token limit reached',
  tool_calls: 'tool call',
};

export function AssistantTurnView(props: { turn: AssistantTurn; isBusy: boolean; onRegenerate: () => void }) {
  const { turn, isBusy, onRegenerate } = props;
  const [selectedToken, setChosen] = useState<number>();
  const { text, reasoning, tokens, state, finishReason, error } = turn;
  return (
    <article className={css['answer']} aria-label="Answer" aria-busy={isAnswering(turn)}>
      {reasoning !== '' && (
        <details className={css['thought']} open={text === ''}>
          <summary>Reasoning</summary>
          <div className={css['text']}>{reasoning}</div>
        </details>
      )}
      {tokens.length > 0 ? (
        <Tokens answer={turn} onSelect={setChosen} />
      ) : (
        text !== '' && <div className={css['text']}>{text}</div>
      )}
      {state === 'waiting' && <p className={css['waiting']}>Processing the prompt ...</p>}
      {state === 'done' && text === '' && <p className={css['waiting']}>The answer is empty.</p>}
      <Timeline answer={turn} selected={selectedToken} />
      {state === 'failed' && <FaultNote error={error} />}
      <Row>
        {state === 'stopped' && <Badge tone="warn">stopped by you</Badge>}
        {state === 'done' && finishReason === 'length' && <Badge tone="warn">truncated</Badge>}
        {!isAnswering(turn) && (
          <Button disabled={isBusy} onClick={onRegenerate}>
            {state === 'failed' ? 'Try again' : 'Regenerate'}
          </Button>
        )}
        {state === 'done' && finishReason !== undefined && (
          <small className={css['muted']}>
            Finish reason: {finishReasonTexts[finishReason] ?? finishReason}.
          </small>
        )}
      </Row>
    </article>
  );
}
