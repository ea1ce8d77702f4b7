import { useState } from 'react';
import { Badge, Button, Field, FaultNote, Row } from '../../parts/index.tsx';
import { type Answer, isAnswering, type Question } from './answer.ts';
import css from './chat.module.css';
import { TimeLine } from './time-line.tsx';
import { Tokens } from './tokens.tsx';

export function QuestionTurn(props: { turn: Question; isBusy: boolean; edit: (text: string) => void }) {
  const { turn, isBusy, edit } = props;
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
        edit(draft);
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

const ends: Readonly<Record<string, string>> = {
  stop: 'complete',
  length: 'token limit reached',
  tool_calls: 'tool call',
};

export function AnswerTurn(props: { turn: Answer; isBusy: boolean; again: () => void }) {
  const { turn, isBusy, again } = props;
  const [chosen, setChosen] = useState<number>();
  const { text, thought, tokens, state, finish, error } = turn;
  return (
    <article className={css['answer']} aria-label="Answer" aria-busy={isAnswering(turn)}>
      {thought !== '' && (
        <details className={css['thought']} open={text === ''}>
          <summary>Reasoning</summary>
          <div className={css['text']}>{thought}</div>
        </details>
      )}
      {tokens.length > 0 ? (
        <Tokens answer={turn} choose={setChosen} />
      ) : (
        text !== '' && <div className={css['text']}>{text}</div>
      )}
      {state === 'waiting' && <p className={css['waiting']}>Processing the prompt ...</p>}
      {state === 'done' && text === '' && <p className={css['waiting']}>The answer is empty.</p>}
      <TimeLine answer={turn} chosen={chosen} />
      {state === 'failed' && <FaultNote error={error} />}
      <Row>
        {state === 'stopped' && <Badge tone="warn">stopped by you</Badge>}
        {state === 'done' && finish === 'length' && <Badge tone="warn">truncated</Badge>}
        {!isAnswering(turn) && (
          <Button disabled={isBusy} onClick={again}>
            {state === 'failed' ? 'Try again' : 'Regenerate'}
          </Button>
        )}
        {state === 'done' && finish !== undefined && (
          <small className={css['muted']}>Finish reason: {ends[finish] ?? finish}.</small>
        )}
      </Row>
    </article>
  );
}
