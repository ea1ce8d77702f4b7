import { memo } from 'react';
import { formatMs, formatNumber } from '../ui/format.ts';
import type { Answer, Measured, Turn } from './conversation.ts';
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

const endTexts: Readonly<Record<'length' | 'stopped', string>> = {
  length: 'Ended at the maximum answer length.',
  stopped: 'Stopped.',
};

function AnswerCard({ answer, isLabelled }: { answer: Answer; isLabelled: boolean }) {
  const { engine, model, state, text, reasoning, finishReason, measured, fault } = answer;
  return (
    <article
      className={css['answer']}
      aria-label={`Answer of ${engine}`}
      aria-busy={state === 'writing' || state === 'waiting'}
    >
      {isLabelled && (
        <h3 className={css['engine']}>
          {engine} <span className={css['quiet']}>{model}</span>
        </h3>
      )}
      {reasoning !== '' && (
        <details className={css['thought']} open={text === '' ? true : undefined}>
          <summary>Reasoning</summary>
          <p className={css['text']}>{reasoning}</p>
        </details>
      )}
      <p className={css['text']}>
        {text}
        {state === 'writing' && <span className={css['caret']} aria-hidden="true" />}
        {state === 'waiting' && <span className={css['quiet']}>Waiting ...</span>}
        {text === '' && (state === 'done' || state === 'stopped') && (
          <span className={css['quiet']}>(no text)</span>
        )}
      </p>
      {state === 'failed' && (
        <p className={css['wrong']} role="alert">
          {fault}
        </p>
      )}
      {(measured !== undefined || state === 'stopped') && (
        <p className={css['figures']}>
          {measured && <Figures measured={measured} />}
          {state === 'stopped' && <span>{endTexts.stopped}</span>}
          {state === 'done' && finishReason === 'length' && <span>{endTexts.length}</span>}
        </p>
      )}
    </article>
  );
}

/** A prompt and its answers, side by side when two engines answered. */
export const TurnView = memo(function TurnView({ turn }: { turn: Turn }) {
  const isCompared = turn.answers.length > 1;
  return (
    <li className={css['turn']}>
      <p className={css['prompt']}>
        <span className={css['hidden']}>You: </span>
        {turn.prompt}
      </p>
      <div className={css['answers']}>
        {turn.answers.map((answer) => (
          <AnswerCard key={answer.engine} answer={answer} isLabelled={isCompared} />
        ))}
      </div>
    </li>
  );
});
