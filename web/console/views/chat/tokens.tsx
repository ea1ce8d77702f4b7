import { memo, useLayoutEffect, useRef, useState } from 'react';
import { type AssistantTurn, probability, confidenceOf, type Token } from './answer.ts';
import css from './chat.module.css';
import { TokenDetails } from './token-details.tsx';

/**
 * The tokens of an answer, colored by probability. They are one tab stop, and the arrow keys move between them; details
 * of the selected token are shown below.
 */
export function Tokens({
  answer,
  onSelect,
}: {
  answer: AssistantTurn;
  onSelect: (index: number | undefined) => void;
}) {
  const { tokens } = answer;
  const [hovered, setPointed] = useState<number>();
  const [selected, setKept] = useState<number>();
  const box = useRef<HTMLDivElement>(null);
  const active = hovered ?? selected;
  const inspector = useRef<HTMLDivElement>(null);
  // It never shrinks: at the end of the page, that would move another token below the pointer, whose details have another
  // height.
  useLayoutEffect(() => {
    const element = inspector.current;
    if (element) element.style.minHeight = `${element.offsetHeight}px`;
  }, [active]);
  const hover = (index: number | undefined) => {
    setPointed(index);
    onSelect(index ?? selected);
  };
  const select = (index: number) => {
    const within = Math.min(Math.max(index, 0), tokens.length - 1);
    setPointed(undefined);
    setKept(within);
    onSelect(within);
    box.current?.querySelector(`[data-token="${within}"]`)?.scrollIntoView({ block: 'nearest' });
  };
  const token = active === undefined ? undefined : tokens[active];
  return (
    <>
      <div
        ref={box}
        role="group"
        aria-label="Tokens of the answer; use the arrow keys to move"
        className={css['tokens']}
        tabIndex={0}
        onPointerOver={({ target }) => hover(tokenIndexOf(target))}
        onPointerLeave={() => hover(undefined)}
        onClick={({ target }) => {
          const index = tokenIndexOf(target);
          if (index !== undefined) select(index);
        }}
        onKeyDown={(event) => {
          const at = selected ?? -1;
          const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tokens.length - 1 }[event.key];
          if (next === undefined) return;
          event.preventDefault();
          select(next);
        }}
      >
        {tokens.map((one, index) => (
          // oxlint-disable-next-line react/no-array-index-key -- tokens have no key other than their index
          <TokenText key={index} token={one} index={index} isActive={index === active} />
        ))}
      </div>
      <div ref={inspector} className={css['inspector']} role="status">
        {token && active !== undefined ? (
          <TokenDetails
            token={token}
            number={active + 1}
            count={tokens.length}
            previousArrivalMs={active > 0 ? tokens[active - 1]?.arrivalMs : undefined}
          />
        ) : (
          <Legend />
        )}
      </div>
    </>
  );
}

const tokenIndexOf = (target: EventTarget): number | undefined => {
  const name = target instanceof HTMLElement ? target.dataset['token'] : undefined;
  return name === undefined ? undefined : Number(name);
};

/** Memoized, because an answer grows token by token. */
const TokenText = memo(function TokenText(props: { token: Token; index: number; isActive: boolean }) {
  const { token, index, isActive } = props;
  return (
    <span
      data-token={index}
      data-sureness={confidenceOf(probability(token))}
      {...(isActive ? { 'data-chosen': '' } : {})}
      className={css['token']}
    >
      {/* A token without a complete character has no text. */}
      {token.text === '' ? '⋯' : token.text}
    </span>
  );
});

function Legend() {
  return (
    <p className={css['legend']}>
      Probability of each token:{' '}
      <span data-sureness="sure" className={css['token']}>
        90 % or more
      </span>{' '}
      <span data-sureness="likely" className={css['token']}>
        from 50 %
      </span>{' '}
      <span data-sureness="unsure" className={css['token']}>
        from 10 %
      </span>{' '}
      <span data-sureness="unlikely" className={css['token']}>
        below
      </span>
      . Point at a token or use the arrow keys to see the alternatives.
    </p>
  );
}
