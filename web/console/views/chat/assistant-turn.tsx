import { memo, useState } from 'react';
import { otherTab, pageClosed } from '../../../chat/merge.ts';
import { isAnswering, type TurnPosition } from '../../../chat/tree.ts';
import { Versions } from '../../../chat/versions.tsx';
import { CopyButton } from '../../../ui/copy-button.tsx';
import { formatMs, formatNumber } from '../../../ui/format.ts';
import { Badge, Button, FaultNote } from '../../../ui/index.tsx';
import { Markdown } from '../../../ui/markdown/index.tsx';
import type { AssistantTurn, ToolCall, ToolResult, Turn } from './answer.ts';
import css from './chat.module.css';
import { describeSettings } from './sampling.ts';
import { Timeline } from './timeline.tsx';
import { ToolResultForm } from './tool-result-form.tsx';
import { Tokens } from './tokens.tsx';

interface Props {
  readonly turn: AssistantTurn;
  readonly versions: readonly Turn[];
  readonly isBusy: boolean;
  readonly regenerate: (turn: Turn) => void;
  readonly choose: (turn: TurnPosition) => void;
  /** Sends the results of its tool calls; absent where turns follow. */
  readonly sendResults: ((turn: Turn, results: readonly ToolResult[]) => void) | undefined;
}

/** An answer: reasoning and tool calls folded, Markdown or the tokens, and what it took. */
export const AssistantTurnView = memo(
  function AssistantTurnView({ turn, versions, isBusy, regenerate, choose, sendResults }: Props) {
    const [selectedToken, setSelectedToken] = useState<number>();
    const [areTokensShown, showTokens] = useState(false);
    const [isTimingShown, showTiming] = useState(false);
    const [isComparing, compare] = useState(false);
    const { text, reasoning, toolCalls, tokens, state, timing, error } = turn;
    const isGrowing = isAnswering(turn);
    return (
      <article className={css['answer']} aria-label="Answer" aria-busy={isGrowing}>
        {reasoning !== '' && (
          <details className={css['fold']}>
            <summary>{isGrowing && text === '' ? 'Reasoning ...' : 'Reasoning'}</summary>
            <div className={css['folded']}>
              <Markdown text={reasoning} isGrowing={isGrowing && text === ''} />
            </div>
          </details>
        )}
        {isComparing && versions.length > 1 ? (
          <Comparison versions={versions} />
        ) : areTokensShown ? (
          <Tokens key={turn.id} answer={turn} onSelect={setSelectedToken} />
        ) : (
          text !== '' && <Markdown text={text} isGrowing={isGrowing} />
        )}
        {toolCalls.map((call) => (
          <ToolCallView key={call.id} call={call} />
        ))}
        {sendResults && toolCalls.length > 0 && state === 'done' && (
          <ToolResultForm
            key={turn.id}
            calls={toolCalls}
            isBusy={isBusy}
            send={(results) => sendResults(turn, results)}
          />
        )}
        {state === 'waiting' && <p className={css['muted']}>Processing the prompt ...</p>}
        {state === 'done' && text === '' && toolCalls.length === 0 && (
          <p className={css['muted']}>The answer is empty.</p>
        )}
        {state === 'failed' && (
          <FaultNote error={error} {...(isBusy ? {} : { retry: () => regenerate(turn) })} />
        )}
        {!isGrowing && !isComparing && <Measures turn={turn} />}
        {isTimingShown && <Timeline answer={turn} selected={selectedToken} />}
        <div className={css['actions']}>
          <Versions versions={versions} shown={turn} what="answer" choose={choose} />
          {versions.length > 1 && (
            <Button
              className={css['action']}
              aria-pressed={isComparing}
              onClick={() => compare(!isComparing)}
            >
              Compare
            </Button>
          )}
          {!isGrowing && text !== '' && (
            <CopyButton className={css['action']} text={text} label="Copy answer" />
          )}
          {!isGrowing && state !== 'failed' && (
            <Button className={css['action']} disabled={isBusy} onClick={() => regenerate(turn)}>
              Regenerate
            </Button>
          )}
          {tokens.length > 0 && (
            <Button
              className={css['action']}
              aria-pressed={areTokensShown}
              onClick={() => showTokens(!areTokensShown)}
            >
              Tokens
            </Button>
          )}
          {!isGrowing && timing.chunkTimes.length > 0 && (
            <Button
              className={css['action']}
              aria-pressed={isTimingShown}
              onClick={() => showTiming(!isTimingShown)}
            >
              Timing
            </Button>
          )}
        </div>
      </article>
    );
  },
  (before, after) =>
    before.turn === after.turn &&
    before.isBusy === after.isBusy &&
    before.regenerate === after.regenerate &&
    before.choose === after.choose &&
    before.sendResults === after.sendResults &&
    before.versions.length === after.versions.length &&
    before.versions.every((version, index) => version === after.versions[index]),
);

const stoppedTexts: Readonly<Record<string, string>> = {
  [pageClosed]: 'stopped: the page was closed',
  [otherTab]: 'in progress in another tab',
};

/** Usage and speed of an ended answer, and how it ended where that is not the usual way. */
function Measures({ turn }: { turn: AssistantTurn }) {
  const { usage, speed, state, finishReason } = turn;
  const cached = usage?.prompt_tokens_details.cached_tokens ?? 0;
  const facts = [
    usage &&
      `${formatNumber(usage.prompt_tokens)} prompt tokens${cached > 0 ? ` (${formatNumber(cached)} cached)` : ''}`,
    usage && `${formatNumber(usage.completion_tokens)} completion tokens`,
    speed && `${formatNumber(speed.tokensPerSecond)} tokens/s`,
    speed && `first token after ${formatMs(speed.firstTokenMs)}`,
  ].filter((fact) => fact !== undefined);
  const isTruncated = state === 'done' && finishReason === 'length';
  if (facts.length === 0 && state !== 'stopped' && !isTruncated) return null;
  return (
    <ul className={css['measures']} aria-label="Usage and speed">
      {state === 'stopped' && (
        <li>
          <Badge tone="warn">{stoppedTexts[finishReason ?? ''] ?? 'stopped by you'}</Badge>
        </li>
      )}
      {isTruncated && (
        <li>
          <Badge tone="warn">truncated: token limit reached</Badge>
        </li>
      )}
      {facts.map((fact) => (
        <li key={fact}>{fact}</li>
      ))}
    </ul>
  );
}

/** A call that the model asks for, with its arguments. */
function ToolCallView({ call }: { call: ToolCall }) {
  return (
    <details className={css['fold']}>
      <summary>
        Tool call <code>{call.name}</code>
      </summary>
      <div className={css['folded']}>
        <pre tabIndex={0} role="region" aria-label={`Arguments of ${call.name}`}>
          {formattedJson(call.arguments)}
        </pre>
      </div>
    </details>
  );
}

/** JSON with line breaks; text that is not complete JSON stays as it is. */
function formattedJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), undefined, 2);
  } catch {
    return text;
  }
}

/** Versions of an answer side by side, each with its model and settings. */
function Comparison({ versions }: { versions: readonly Turn[] }) {
  return (
    <div className={css['comparison']}>
      {versions.map((turn, index) => {
        if (turn.role === 'user') return null;
        const label = `${index + 1}: ${turn.model ?? 'no model'}, ${describeSettings(turn.settings)}`;
        return (
          <section key={turn.id} aria-label={`Version ${label}`}>
            <p className={css['muted']}>{label}</p>
            <Markdown text={turn.text} isGrowing={isAnswering(turn)} />
            {!isAnswering(turn) && <Measures turn={turn} />}
          </section>
        );
      })}
    </div>
  );
}
