import { useEffect, useState } from 'react';
import { copyText } from './copy.tsx';
import { Button } from './index.tsx';

/** How long the button confirms, in ms. */
const confirmationMs = 2000;

/** Copies a text to the clipboard, and confirms it in words; `CopyButton` of `copy.tsx` is the small one. */
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
      onClick={({ currentTarget }) =>
        void copyText(text, currentTarget).then((isCopied) => setResult(isCopied ? 'copied' : 'failed'))
      }
    >
      {result === undefined ? 'Copy' : result === 'copied' ? 'Copied' : 'Not copied'}
    </Button>
  );
}
