import { memo, useState } from 'react';
import { CopyButton } from '../ui/copy-button.tsx';
import { Button, Field, Row } from '../ui/index.tsx';
import type { Message, TurnPosition } from './tree.ts';
import css from './turns.module.css';
import { Versions } from './versions.tsx';

interface Props<Turn extends TurnPosition> {
  readonly turn: Message;
  readonly versions: readonly Turn[];
  /** Whether an answer is in progress, or none can be generated. */
  readonly isBusy: boolean;
  readonly edit: (turn: TurnPosition, text: string) => void;
  readonly choose: (turn: TurnPosition) => void;
}

/** A message of the user, which can be edited: the edited one is another version, with its own answers. */
export const MessageView = memo(function MessageView<Turn extends TurnPosition>(props: Props<Turn>) {
  const { turn, versions, isBusy, edit, choose } = props;
  const [draft, setDraft] = useState<string>();
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
}, areEqual);

/** Whether the same would be shown: `versions` is a new list each time. */
function areEqual<Turn extends TurnPosition>(before: Props<Turn>, after: Props<Turn>): boolean {
  return (
    before.turn === after.turn &&
    before.isBusy === after.isBusy &&
    before.edit === after.edit &&
    before.choose === after.choose &&
    before.versions.length === after.versions.length &&
    before.versions.every((version, index) => version === after.versions[index])
  );
}
