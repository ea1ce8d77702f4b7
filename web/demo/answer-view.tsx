import { memo } from 'react';
import { isAnswering, type TurnPosition } from '../chat/tree.ts';
import turnCss from '../chat/turns.module.css';
import { Versions } from '../chat/versions.tsx';
import { CopyButton } from '../ui/copy-button.tsx';
import { formatMs, formatNumber } from '../ui/format.ts';
import { Button } from '../ui/index.tsx';
import { Markdown } from '../ui/markdown/index.tsx';
import type { AnswerTurn, EngineAnswer, Measured, Turn } from './conversation.ts';
import css from './demo.module.css';

const tokens = (count: number) => `${formatNumber(count)} ${count === 1 ? 'token' : 'tokens'}`;

function Figures({ measured }: { measured: Measured }) {
  const { promptTokens, cachedTokens, completionTokens, prefillMs, decodeMs, tokensPerSecond } = measured;
  const cachedText = cachedTokens > 0 ? `, ${formatNumber(cachedTokens)} of them cached,` : '';
  return (
    <>
      {tokensPerSecond !== undefined && (
        <strong className={css['speed']}>{formatNumber(tokensPerSecond)} tokens/s</strong>
      )}
      <span>
        Prefill: {tokens(promptTokens)}
        {cachedText} in {formatMs(prefillMs)}
      </span>
      <span>
        Decode: {tokens(completionTokens)} in {formatMs(decodeMs)}
      </span>
    </>
  );
}

function AnswerCard({ answer, isLabelled }: { answer: EngineAnswer; isLabelled: boolean }) {
  const { engine, model, state, text, reasoning, finishReason, measured, fault } = answer;
  const isGrowing = state === 'writing' || state === 'waiting';
  return (
    <article className={css['answer']} aria-label={`Answer of ${engine}`} aria-busy={isGrowing}>
      {isLabelled && (
        <h3 className={css['engine']}>
          {engine} <span className={css['quiet']}>{model}</span>
        </h3>
      )}
      {reasoning !== '' && (
        <details className={turnCss['fold']} open={text === '' ? true : undefined}>
          <summary>Reasoning</summary>
          <div className={turnCss['folded']}>
            <Markdown text={reasoning} isGrowing={isGrowing && text === ''} />
          </div>
        </details>
      )}
      {text !== '' && <Markdown text={text} isGrowing={isGrowing} />}
      {state === 'writing' && <span className={css['caret']} aria-hidden="true" />}
      {state === 'waiting' && <p className={css['quiet']}>Waiting ...</p>}
      {text === '' && (state === 'done' || state === 'stopped') && (
        <p className={css['quiet']}>The answer is empty.</p>
      )}
      {state === 'failed' && (
        <p className={css['wrong']} role="alert">
          {fault}
        </p>
      )}
      {(measured !== undefined || state === 'stopped') && (
        <p className={css['figures']}>
          {measured && <Figures measured={measured} />}
          {state === 'stopped' && <span>Stopped.</span>}
          {state === 'done' && finishReason === 'length' && <span>Truncated: token limit reached.</span>}
        </p>
      )}
    </article>
  );
}

interface Props {
  readonly turn: AnswerTurn;
  readonly versions: readonly Turn[];
  /** Whether an answer is in progress, or no model is loaded. */
  readonly isBusy: boolean;
  readonly regenerate: (turn: Turn) => void;
  readonly choose: (turn: TurnPosition) => void;
}

/** The answers to a message, side by side when two engines answered. */
export const AnswerTurnView = memo(
  function AnswerTurnView({ turn, versions, isBusy, regenerate, choose }: Props) {
    const { answers, text } = turn;
    const isGrowing = isAnswering(turn);
    return (
      <div className={turnCss['answer']}>
        <div className={css['answers']}>
          {answers.map((answer) => (
            <AnswerCard key={answer.engine} answer={answer} isLabelled={answers.length > 1} />
          ))}
        </div>
        <div className={turnCss['actions']}>
          <Versions versions={versions} shown={turn} what="answer" choose={choose} />
          {!isGrowing && text !== '' && (
            <CopyButton className={turnCss['action']} text={text} label="Copy answer" />
          )}
          {!isGrowing && (
            <Button className={turnCss['action']} disabled={isBusy} onClick={() => regenerate(turn)}>
              Regenerate
            </Button>
          )}
        </div>
      </div>
    );
  },
  (before, after) =>
    before.turn === after.turn &&
    before.isBusy === after.isBusy &&
    before.regenerate === after.regenerate &&
    before.choose === after.choose &&
    before.versions.length === after.versions.length &&
    before.versions.every((version, index) => version === after.versions[index]),
);
