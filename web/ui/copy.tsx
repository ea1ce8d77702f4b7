/** Buttons that copy a text: on their own, after a value, and on a block of code. */
import { type ReactNode, useEffect, useRef, useState } from 'react';
import css from './copy.module.css';

type Outcome = 'copied' | 'failed';

const outcomeTexts = { copied: 'Copied', failed: 'Copying failed: select the text and copy it yourself' };

/** How long the button shows the outcome. */
const shownMs = 2000;

/**
 * A button that copies a text.
 * @param props.text text to copy, or a function that makes it
 * @param props.label what it copies, as the object of "Copy ...": `the digest`
 */
export function CopyButton({ text, label }: { text: string | (() => string); label: string }) {
  const ref = useRef<HTMLButtonElement>(null);
  const [outcome, setOutcome] = useState<Outcome>();
  useEffect(() => {
    if (outcome === undefined) return;
    const timer = setTimeout(() => setOutcome(undefined), shownMs);
    return () => clearTimeout(timer);
  }, [outcome]);
  const copy = async () => {
    const isCopied = await copyText(typeof text === 'string' ? text : text(), ref.current);
    setOutcome(isCopied ? 'copied' : 'failed');
  };
  const tone = outcome === undefined ? '' : ` ${css[outcome === 'copied' ? 'done' : 'failed']}`;
  // Screen readers read a changed name of the focused button.
  const name = outcome === undefined ? `Copy ${label}` : outcomeTexts[outcome];
  return (
    <button
      ref={ref}
      type="button"
      className={`${css['button']}${tone}`}
      aria-label={name}
      title={name}
      onClick={() => void copy()}
    >
      <svg viewBox="0 0 16 16" fill="none" stroke="currentColor" strokeWidth="1.4" aria-hidden="true">
        {outcome === 'copied' ? (
          <path d="M3 8.5l3.2 3.2L13 5" strokeLinecap="round" strokeLinejoin="round" />
        ) : (
          <>
            <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" />
            <path d="M10.5 5.5V4A1.5 1.5 0 0 0 9 2.5H4A1.5 1.5 0 0 0 2.5 4v5A1.5 1.5 0 0 0 4 10.5h1.5" />
          </>
        )}
      </svg>
    </button>
  );
}

/** A digest, an id or another short value as code, with a copy button. */
export const CopyValue = ({
  value,
  label,
  children,
}: {
  value: string;
  label: string;
  /** Shown instead of the whole value. */
  children?: ReactNode;
}) => (
  <span className={css['value']}>
    <code {...(children === undefined ? {} : { title: value })}>{children ?? value}</code>
    <CopyButton text={value} label={label} />
  </span>
);

/** Commands or code that can be copied. */
export const CodeBlock = ({ code, label }: { code: string; label: string }) => (
  <div className={css['block']}>
    {/* A scrollable region must be focusable by keyboard. */}
    <pre role="region" aria-label={label} tabIndex={0}>
      <code>{code}</code>
    </pre>
    <CopyButton text={code} label={inSentence(label)} />
  </div>
);

/** A label inside a sentence: without its capital, unless it begins with an abbreviation. */
export const inSentence = (label: string): string =>
  /^[A-Z][^A-Z]/.test(label) ? label.charAt(0).toLowerCase() + label.slice(1) : label;

/** Copies a text; where the page is not a secure context, by a selection. @returns whether it worked */
export async function copyText(text: string, button: HTMLElement | null): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelection(text, button);
  }
}

/** A modal dialog makes the rest of the page inert, so the selected element is placed beside the button. */
function copySelection(text: string, button: HTMLElement | null): boolean {
  const area = document.createElement('textarea');
  area.value = text;
  area.className = css['offscreen'] ?? '';
  (button?.parentElement ?? document.body).append(area);
  area.select();
  try {
    // The only way to copy without a secure context.
    return document.execCommand('copy');
  } catch {
    return false;
  } finally {
    area.remove();
    button?.focus();
  }
}
