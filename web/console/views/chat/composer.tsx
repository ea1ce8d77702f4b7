import { useState } from 'react';
import { Button, partsCss } from '../../../ui/index.tsx';
import css from './chat.module.css';

/** Form for the next message. It keeps the focus when a message is sent or an answer stopped. */
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
      <textarea
        className={partsCss['input']}
        aria-label="Message"
        aria-describedby="composer-keys"
        placeholder="Write a message"
        rows={2}
        value={text}
        onChange={({ target }) => setText(target.value)}
        onKeyDown={(event) => {
          // Enter also confirms the composition of an input method.
          if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
          event.preventDefault();
          submit();
        }}
      />
      <Button
        kind={isBusy ? 'danger' : 'primary'}
        disabled={!isBusy && text.trim() === ''}
        onClick={isBusy ? stop : submit}
      >
        {isBusy ? 'Stop' : 'Send'}
      </Button>
      <small id="composer-keys" className={css['muted']}>
        Enter sends the message, Shift+Enter starts a new line.
      </small>
    </form>
  );
}
