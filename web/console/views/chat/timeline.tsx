import { useState } from 'react';
import { formatMs, formatNumber } from '../../../ui/format.ts';
import { Button } from '../../../ui/index.tsx';
import { type AssistantTurn, decodeSpeed, overallSpeed } from './answer.ts';
import css from './chat.module.css';
import { HostTimingsView } from './host-timings.tsx';

/** Timeline of an answer: time to first token, then a mark for each chunk. */
export function Timeline({ answer, selected }: { answer: AssistantTurn; selected: number | undefined }) {
  const { timing, requestId } = answer;
  const [isHostTimingShown, showHostTimings] = useState(false);
  const first = timing.chunkTimes[0];
  const last = timing.chunkTimes.at(-1);
  if (first === undefined || last === undefined) return null;
  const total = timing.end ?? last;
  const xOf = (at: number) => (at / total) * 1000;
  const speed = decodeSpeed(answer);
  const at = selected === undefined ? undefined : answer.tokens[selected]?.arrivalMs;
  return (
    <div className={css['timing']}>
      <svg
        className={css['timeLine']}
        viewBox="0 0 1000 24"
        preserveAspectRatio="none"
        role="img"
        aria-label={`First chunk after ${formatMs(first)}, last after ${formatMs(last)}, ${timing.chunkTimes.length} chunks.`}
      >
        <rect className={css['prefill']} x={0} y={4} width={xOf(first)} height={16} />
        <rect className={css['decode']} x={xOf(first)} y={4} width={xOf(last) - xOf(first)} height={16} />
        {timing.chunkTimes.map((time, index) => (
          <line
            // oxlint-disable-next-line react/no-array-index-key -- chunks have no key other than their index
            key={index}
            className={css['piece']}
            x1={xOf(time)}
            x2={xOf(time)}
            y1={4}
            y2={20}
          />
        ))}
        {at !== undefined && <line className={css['chosenPiece']} x1={xOf(at)} x2={xOf(at)} y1={0} y2={24} />}
      </svg>
      <ul className={css['timeFacts']}>
        <li>
          <span className={css['prefillKey']} aria-hidden="true" /> first token after{' '}
          <strong>{formatMs(first)}</strong>
        </li>
        <li>
          <span className={css['decodeKey']} aria-hidden="true" /> decoding{' '}
          <strong>{formatMs(last - first)}</strong>
        </li>
        <li>
          <strong>{formatNumber(speed ?? overallSpeed(answer) ?? 0)}</strong> tokens/s
          {speed === undefined && ', including time to first token'}
        </li>
        <li>measured by this page</li>
        {requestId !== undefined && answer.state === 'done' && !isHostTimingShown && (
          <li>
            <Button onClick={() => showHostTimings(true)}>Show the host's timings</Button>
          </li>
        )}
      </ul>
      {isHostTimingShown && requestId !== undefined && <HostTimingsView requestId={requestId} />}
    </div>
  );
}
