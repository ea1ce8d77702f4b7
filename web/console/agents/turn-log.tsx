import { Link } from 'wouter';
import { CopyButton } from '../../ui/copy.tsx';
import { formatMs, formatNumber } from '../../ui/format.ts';
import css from './agents.module.css';
import { consolePath, ValueView } from './parts.tsx';
import { type LogBlock, summarizeArguments, type TurnLogData } from './turn-log-data.ts';
import { StateBadge } from '../../ui/state-badge.tsx';

/** The turns of a task or of a step of a run: text, reasoning, tool calls and results. */
export const TurnLog = ({ log, label }: { log: TurnLogData; label: string }) => (
  <ol className={css['log']} aria-label={label}>
    {log.blocks.map((block) => (
      <li key={block.seq}>
        <BlockView block={block} />
      </li>
    ))}
  </ol>
);

function BlockView({ block }: { block: LogBlock }) {
  switch (block.kind) {
    case 'turn':
      return (
        <div className={css['turn']}>
          <strong>Turn {block.n}</strong>
          {block.usage && (
            <span>
              {formatNumber(block.usage.prompt_tokens)} prompt tokens,{' '}
              {formatNumber(block.usage.completion_tokens)} completion tokens
            </span>
          )}
        </div>
      );
    case 'text':
      return <div className={css['said']}>{block.text}</div>;
    case 'reasoning':
      return (
        <details className={css['call']}>
          <summary>Reasoning, {formatNumber(block.text.length)} characters</summary>
          <div className={css['callBody']}>
            <div className={css['said']}>{block.text}</div>
          </div>
        </details>
      );
    case 'call':
      return <Call {...block} />;
    case 'staged':
      return <Staged {...block.staged} />;
    case 'message':
      return (
        <div className={`${css['end']} ${css['message']}`}>
          <strong>Message</strong>
          <div className={css['prose']}>{block.prompt}</div>
        </div>
      );
    case 'compacted':
      return (
        <details className={css['call']}>
          <summary>{block.messages} older messages were summarized to make room</summary>
          <div className={css['callBody']}>
            <div className={css['said']}>{block.summary}</div>
          </div>
        </details>
      );
    case 'resumed':
      return <div className={css['turn']}>The host was restarted and continues.</div>;
    case 'retrying':
      return (
        <div className={css['turn']}>
          {/[.!?]$/.test(block.message) ? block.message : `${block.message}.`} The model is asked again.
        </div>
      );
    case 'end':
      return <End end={block.end} />;
  }
}

function Call({ call, result, output, staged }: Extract<LogBlock, { kind: 'call' }>) {
  const durationMs = result && new Date(result.ts).getTime() - new Date(call.ts).getTime();
  return (
    <div className={css['form']}>
      <details className={css['call']}>
        <summary>
          <code>{call.tool}</code> {summarizeArguments(call.arguments)}{' '}
          {result ? (
            <StateBadge state={result.ok ? (staged ? 'staged' : 'done') : 'failed'} isRecorded />
          ) : (
            <StateBadge state="running" />
          )}
        </summary>
        <div className={css['callBody']}>
          <span className={css['quiet']}>Arguments</span>
          <ValueView value={call.arguments} label={`Arguments of ${call.tool}`} />
          {result && (
            <>
              <span className={css['quiet']}>
                Result{durationMs !== undefined && `, after ${formatMs(durationMs)}`}
                {result.truncated && ', truncated'}
              </span>
              <ValueView value={result.output} label={`Result of ${call.tool}`} />
            </>
          )}
        </div>
      </details>
      {output !== undefined && !result && (
        <div className={css['callBody']}>
          <ValueView value={output} label={`Output of ${call.tool}`} />
        </div>
      )}
      {staged && (result || output === undefined) && <Staged {...staged} />}
    </div>
  );
}

const Staged = ({ pending_id, summary }: { pending_id: string; summary: string }) => (
  <div className={`${css['end']} ${css['waits']}`}>
    <span className={css['prose']}>{summary}</span>
    <Link href={consolePath.pending(pending_id)}>
      Review {pending_id}: nothing changes until you approve it
    </Link>
  </div>
);

const abortReasons: Readonly<Record<string, string>> = {
  error: 'Failed',
  timeout: 'Timed out',
  budget: 'Budget exceeded',
  shutdown: 'Host stopped',
  cancelled: 'Stopped',
};

function End({ end }: { end: NonNullable<TurnLogData['end']> }) {
  if (end.type === 'aborted')
    return (
      <div className={`${css['end']} ${css['aborted']}`}>
        <strong>{abortReasons[end.reason] ?? end.reason}</strong>
        <div className={css['prose']}>{end.message}</div>
      </div>
    );
  return (
    <div className={css['end']}>
      <span className={css['answer']}>
        <strong>Answer</strong>
        <CopyButton text={end.text} label="the answer" />
      </span>
      <div className={css['prose']}>{end.text === '' ? '(no text)' : end.text}</div>
    </div>
  );
}
