import { memo, useState } from 'react';
import { CopyButton } from '../../../ui/copy-button.tsx';
import { Button, Field, Row } from '../../../ui/index.tsx';
import type { Turn, UserTurn } from './answer.ts';
import css from './chat.module.css';
import { Versions } from './versions.tsx';

interface Props {
  readonly turn: UserTurn;
  readonly versions: readonly Turn[];
  readonly isBusy: boolean;
  readonly edit: (turn: Turn, text: string) => void;
  readonly choose: (turn: Turn) => void;
}

/** A message of the user, which can be edited: the edited one is another version, with its own answers. */
export const UserTurnView = memo(
  function UserTurnView({ turn, versions, isBusy, edit, choose }: Props) {
    const [draft, setDraft] = useState<string>();
    if (turn.toolResults)
      return (
        <article className={css['answer']} aria-label="Tool results">
          {turn.toolResults.map(({ id, name, content }) => (
            <details key={id} className={css['fold']}>
              <summary>
                Result of <code>{name}</code>
              </summary>
              <div className={css['folded']}>
                <pre tabIndex={0} role="region" aria-label={`Result of ${name}`}>
                  {content}
                </pre>
              </div>
            </details>
          ))}
          <Versions versions={versions} shown={turn} what="results" choose={choose} />
        </article>
      );
    if (draft === undefined)
      return (
        <article className={css['question']} aria-label="Your message">
          <div className={css['bubble']}>{turn.text}</div>
          <div className={css['actions']}>
            <Versions versions={versions} shown={turn} what="message" choose={choose} />
            <CopyButton className={css['action']} text={turn.text} label="Copy message" />
            <Button className={css['action']} disabled={isBusy} onClick={() => setDraft(turn.text)}>
              Edit
            </Button>
          </div>
        </article>
      );
    return (
      <form
        className={css['editing']}
        aria-label="Edit your message"
        onSubmit={(event) => {
          event.preventDefault();
          if (draft.trim() === '') return;
          setDraft(undefined);
          edit(turn, draft);
        }}
      >
        <Field label="Your message" hint="Sends another version. The earlier one stays, with its answers.">
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
  },
  (before, after) => areEqual(before, after),
);

/** Whether the same would be shown: `versions` is a new list each time. */
const areEqual = (before: Props, after: Props): boolean =>
  before.turn === after.turn &&
  before.isBusy === after.isBusy &&
  before.edit === after.edit &&
  before.choose === after.choose &&
  before.versions.length === after.versions.length &&
  before.versions.every((version, index) => version === after.versions[index]);
