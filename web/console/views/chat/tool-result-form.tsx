import { useState } from 'react';
import { Button, Field, Row } from '../../../ui/index.tsx';
import type { ToolCall, ToolResult } from './answer.ts';
import css from './chat.module.css';

/** Form for the results of tool calls, which the user writes in place of the tools. */
export function ToolResultForm(props: {
  calls: readonly ToolCall[];
  isBusy: boolean;
  send: (results: readonly ToolResult[]) => void;
}) {
  const { calls, isBusy, send } = props;
  const [contents, setContents] = useState<Readonly<Record<string, string>>>({});
  return (
    <form
      className={css['editing']}
      onSubmit={(event) => {
        event.preventDefault();
        send(calls.map(({ id, name }) => ({ id, name, content: contents[id] ?? '' })));
      }}
    >
      {calls.map(({ id, name }) => (
        <Field key={id} label={`Result of ${name}`}>
          {(control) => (
            <textarea
              {...control}
              rows={2}
              spellCheck={false}
              value={contents[id] ?? ''}
              onChange={({ target }) => setContents({ ...contents, [id]: target.value })}
            />
          )}
        </Field>
      ))}
      <Row>
        <Button type="submit" disabled={isBusy}>
          {calls.length === 1 ? 'Send the result' : 'Send the results'}
        </Button>
      </Row>
    </form>
  );
}
