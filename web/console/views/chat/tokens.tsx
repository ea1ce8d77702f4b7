import { memo, useRef, useState } from 'react';
import { type Answer, probability, sureness, type Token } from './answer.ts';
import css from './chat.module.css';
import { TokenFacts } from './token-facts.tsx';

/**
 * The tokens of an answer, colored by probability. They are one tab stop, and the arrow keys move between them; details
 * of the selected token are shown below.
 */
export function Tokens({ answer, choose }: { answer: Answer; choose: (index: number | undefined) => void }) {
  const { tokens } = answer;
  const [pointed, setPointed] = useState<number>();
  const [kept, setKept] = useState<number>();
  const box = useRef<HTMLDivElement>(null);
  const chosen = pointed ?? kept;
  const point = (index: number | undefined) => {
    setPointed(index);
    choose(index ?? kept);
  };
  const keep = (index: number) => {
    const within = Math.min(Math.max(index, 0), tokens.length - 1);
    setPointed(undefined);
    setKept(within);
    choose(within);
    box.current?.querySelector(`[data-token="${within}"]`)?.scrollIntoView({ block: 'nearest' });
  };
  const token = chosen === undefined ? undefined : tokens[chosen];
  return (
    <>
      <div
        ref={box}
        role="group"
        aria-label="Tokens of the answer; use the arrow keys to move"
        className={css['tokens']}
        tabIndex={0}
        onPointerOver={({ target }) => point(indexOf(target))}
        onPointerLeave={() => point(undefined)}
        onClick={({ target }) => {
          const index = indexOf(target);
          if (index !== undefined) keep(index);
        }}
        onKeyDown={(event) => {
          const at = kept ?? -1;
          const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tokens.length - 1 }[event.key];
          if (next === undefined) return;
          event.preventDefault();
          keep(next);
        }}
      >
        {tokens.map((one, index) => (
          // oxlint-disable-next-line react/no-array-index-key -- tokens have no key other than their index
          <TokenText key={index} token={one} index={index} isChosen={index === chosen} />
        ))}
      </div>
      <div className={css['inspector']} role="status">
        {token && chosen !== undefined ? (
          <TokenFacts
            token={token}
            number={chosen + 1}
            count={tokens.length}
            after={chosen > 0 ? tokens[chosen - 1]?.at : undefined}
          />
        ) : (
          <Legend />
        )}
      </div>
    </>
  );
}

const indexOf = (target: EventTarget): number | undefined => {
  const name = target instanceof HTMLElement ? target.dataset['token'] : undefined;
  return name === undefined ? undefined : Number(name);
};

/** Memoized, because an answer grows token by token. */
const TokenText = memo(function TokenText(props: { token: Token; index: number; isChosen: boolean }) {
  const { token, index, isChosen } = props;
  return (
    <span
      data-token={index}
      data-sureness={sureness(probability(token))}
      {...(isChosen ? { 'data-chosen': '' } : {})}
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
