import { Link } from 'wouter';
import {
  agentsCss as css,
  ReconnectNotice,
  consolePath,
  StateBadge,
  ValueView,
  waitingTexts,
} from '../../agents/parts.tsx';
import { type RunPart, buildRunLog } from '../../agents/run-log.ts';
import type { Gate, RunDetail, RunEvent } from '../../agents/schemas.ts';
import { TurnLog } from '../../agents/turn-log.tsx';
import { buildTurnLog } from '../../agents/turn-log-data.ts';
import { useEvents } from '../../agents/use-events.ts';
import { formatTime } from '../../../ui/format.ts';
import { FaultNote, Loading, Panel } from '../../../ui/index.tsx';
import { stateLabel } from '../../../ui/states.ts';

/** Events of a run, over all its segments. */
export function RunEvents({ run }: { run: RunDetail }) {
  const stream = useEvents<RunEvent>(
    `/agent/v1/runs/${encodeURIComponent(run.id)}/events`,
    run.state === 'running' || run.state === 'paused',
    // A segment may start and end between two polls of the run.
    `${run.state} ${(run.gate as Gate | undefined)?.since_at}`,
  );
  const parts = buildRunLog(stream.events);
  return (
    <Panel title="Events">
      {parts.length === 0 && stream.fault === undefined && <Loading what="its events" />}
      <ol className={css['log']} aria-label="Events of the run">
        {parts.map((part) => (
          <li key={part.seq}>
            <RunPartView part={part} />
          </li>
        ))}
      </ol>
      <ReconnectNotice fault={stream.disconnectFault} />
      {stream.fault !== undefined && <FaultNote error={stream.fault} />}
    </Panel>
  );
}

function RunPartView({ part }: { part: RunPart }) {
  if (part.kind === 'start')
    return <div className={css['turn']}>Started or resumed, {formatTime(part.event.ts)}</div>;
  if (part.kind === 'waiting') {
    const { step, waiting_on: waitingOn, pending_id: pending } = part.event;
    return (
      <p>
        Step <strong>{step}</strong> is waiting for {waitingTexts[waitingOn]}
        {pending !== undefined && (
          <>
            : <Link href={consolePath.pending(pending)}>{pending}</Link>
          </>
        )}
      </p>
    );
  }
  if (part.kind === 'step') return <Step part={part} />;
  const { outcome, waiting_on: waitingOn, error, result, ts } = part.event;
  const className = outcome === 'failed' ? css['aborted'] : outcome === 'completed' ? '' : css['paused'];
  return (
    <div className={`${css['end']} ${className}`}>
      <strong>
        {outcome === 'suspended' && waitingOn !== undefined
          ? `Waiting for ${waitingTexts[waitingOn]}`
          : `Run ${stateLabel(outcome)}`}
      </strong>
      <span className={css['quiet']}>{formatTime(ts)}</span>
      {error !== undefined && <div className={css['prose']}>{error}</div>}
      {result !== undefined && <ValueView value={result} label="Output of the run" />}
    </div>
  );
}

function Step({ part }: { part: Extract<RunPart, { kind: 'step' }> }) {
  const { step, attempt, turns, end, isCut } = part;
  const log = buildTurnLog(turns);
  return (
    <details className={css['call']} open>
      <summary>
        Step <code>{step}</code> {attempt !== undefined && attempt > 1 && `attempt ${attempt} `}
        <StateBadge state={end?.outcome ?? (isCut ? 'interrupted' : 'running')} />
      </summary>
      <div className={css['callBody']}>
        {log.blocks.length > 0 && <TurnLog log={log} label={`Turns of ${step}`} />}
        {end?.error !== undefined && <p className={css['prose']}>{end.error}</p>}
        {end?.output !== undefined && log.end === undefined && (
          <ValueView value={end.output} label={`Output of ${step}`} />
        )}
        {log.blocks.length === 0 && end === undefined && !isCut && (
          <p className={css['quiet']}>Running ...</p>
        )}
      </div>
    </details>
  );
}
