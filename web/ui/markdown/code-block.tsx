import { useEffect, useState } from 'react';
import { CopyButton } from '../copy-button.tsx';
import type { HighlightedCode } from './highlight.ts';
import css from './markdown.module.css';

/** Longest code, in characters, that is highlighted while it grows. */
const maxGrowingCode = 2000;

/** Code with its language, a copy button and highlighting, which is loaded on first use. */
export function CodeBlock({ code, language, isOpen }: { code: string; language: string; isOpen: boolean }) {
  const name = language.trim().split(/\s/, 1)[0] ?? '';
  const highlighted = useHighlighted(code, name, isOpen);
  return (
    <figure className={css['codeBlock']}>
      <figcaption>
        <span>{name === '' ? 'code' : name}</span>
        <CopyButton text={code} label="Copy code" />
      </figcaption>
      <pre tabIndex={0} aria-label={name === '' ? 'Code' : `Code, ${name}`} role="region">
        <code>
          {highlighted?.spans.map(({ start, text, className }) => (
            <span key={start} className={className}>
              {text}
            </span>
          ))}
          {code.slice(highlighted?.code.length ?? 0)}
        </code>
      </pre>
    </figure>
  );
}

/** The part of the code that is highlighted so far. */
function useHighlighted(code: string, language: string, isOpen: boolean): HighlightedCode | undefined {
  const [highlighted, setHighlighted] = useState<HighlightedCode>();
  useEffect(() => {
    if (language === '' || (isOpen && code.length > maxGrowingCode)) return undefined;
    let isCurrent = true;
    const update = async () => {
      const { highlight } = await import('./highlight.ts');
      const next = await highlight(code, language);
      if (isCurrent) setHighlighted(next);
    };
    update().catch(() => {
      // The highlighter could not be loaded: the code stays plain.
    });
    return () => {
      isCurrent = false;
    };
  }, [code, language, isOpen]);
  return highlighted && code.startsWith(highlighted.code) ? highlighted : undefined;
}
