import { useEffect, useState } from 'react';
import { Button } from './index.tsx';

/** How long the button confirms, in ms. */
const confirmationMs = 2000;

/** Copies a text to the clipboard, and confirms it. */
export function CopyButton(props: { text: string; label: string; className?: string | undefined }) {
  const { text, label, className } = props;
  const [result, setResult] = useState<'copied' | 'failed'>();
  useEffect(() => {
    if (result === undefined) return undefined;
    const timer = setTimeout(() => setResult(undefined), confirmationMs);
    return () => clearTimeout(timer);
  }, [result]);
  return (
    <Button
      className={className}
      aria-label={result === undefined ? label : `${label}: ${result}`}
      onClick={() =>
        void copyText(text).then(
          () => setResult('copied'),
          () => setResult('failed'),
        )
      }
    >
      {result === undefined ? 'Copy' : result === 'copied' ? 'Copied' : 'Not copied'}
    </Button>
  );
}

/** The clipboard API needs a secure context; a host in a local network over http is none, so there the old command copies. */
async function copyText(text: string): Promise<void> {
  if (isSecureContext) return await navigator.clipboard.writeText(text);
  const area = document.createElement('textarea');
  area.value = text;
  const focused = document.activeElement;
  document.body.append(area);
  area.select();
  const isCopied = document.execCommand('copy');
  area.remove();
  if (focused instanceof HTMLElement) focused.focus();
  if (!isCopied) throw new Error('the browser did not copy');
}
