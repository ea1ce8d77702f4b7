import { useState } from 'react';
import { Button, Field, Row } from '../../parts/index.tsx';
import css from './chat.module.css';

/** Form for the next message. */
export function Composer(props: { isBusy: boolean; send: (text: string) => void; stop: () => void }) {
  const { isBusy, send, stop } = props;
  const [text, setText] = useState('');
  const submit = () => {
    if (isBusy || text.trim() === '') return;
    send(text);
    setText('');
  };
  return (
    <form
      className={css['composer']}
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <Field label="Message" hint="Enter sends the message, Shift+Enter starts a new line.">
        {(control) => (
          <textarea
            {...control}
            rows={3}
            value={text}
            onChange={({ target }) => setText(target.value)}
            onKeyDown={(event) => {
              // Enter also confirms the composition of an input method.
              if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
              event.preventDefault();
              submit();
            }}
          />
        )}
      </Field>
      <Row>
        {isBusy ? (
          <Button kind="danger" onClick={stop}>
            Stop
          </Button>
        ) : (
          <Button type="submit" kind="primary" disabled={text.trim() === ''}>
            Send
          </Button>
        )}
      </Row>
    </form>
  );
}
