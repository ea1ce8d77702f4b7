import { useState } from 'react';
import { Link } from 'wouter';
import { formatRelativeTime, formatBytes, formatNumber, formatTime } from '../../../ui/format.ts';
import { Button, Facts, FaultNote, Panel, Row, LiveBadge } from '../../../ui/index.tsx';
import { PolicyForm } from './policy-form.tsx';
import { PurgeButton } from './purge.tsx';
import { useRackChange } from './recorder.ts';
import type { Rack } from './types.ts';

const rackDescriptions: Readonly<Record<Rack['id'], string>> = {
  agent: 'Conversations and tool calls of agents in tasks.',
  completions: 'Requests to the resident model on all APIs, and its answers.',
  workflows: 'Conversations in the steps of workflow runs.',
  gateway: 'Requests and answers of the gateway.',
  external: 'Events that your programs send with a write token.',
};

/** A rack: state, policy and stored events. */
export function RackPanel({ rack }: { rack: Rack }) {
  const { id, armed, policy, events, bytes, oldest, newest } = rack;
  const [isEditing, setEdited] = useState(false);
  const change = useRackChange(id);
  const { days: maxDays, bytes: maxBytes, events: maxEvents } = policy.retention;
  return (
    <Panel
      title={id}
      tools={armed ? <LiveBadge tone="warn">armed: recording</LiveBadge> : <LiveBadge>disarmed</LiveBadge>}
    >
      <p>{rackDescriptions[id]}</p>
      <Facts
        facts={[
          ['Content', policy.content],
          [
            'Retention',
            `${formatNumber(maxDays)} days, ${formatBytes(maxBytes)}, ${formatNumber(maxEvents)} events; oldest deleted first`,
          ],
          [
            'Redacts',
            policy.redact.length === 0 ? (
              'only the host’s own secrets'
            ) : (
              <code key="redact">{policy.redact.join('  ')}</code>
            ),
          ],
          [
            'Stored',
            events === 0
              ? 'nothing'
              : `${formatNumber(events)} events, ${formatBytes(bytes)}${oldest && newest ? `, ${formatTime(oldest)} to ${formatTime(newest)}` : ''}`,
          ],
          ...(rack.changed_at !== null
            ? ([
                ['Changed', `${formatRelativeTime(rack.changed_at)} by ${rack.changed_by ?? 'unknown'}`],
              ] as const)
            : []),
        ]}
      />
      {isEditing ? (
        <PolicyForm rack={rack} onClose={() => setEdited(false)} />
      ) : (
        <Row>
          <Button
            {...(armed ? {} : { kind: 'primary' as const })}
            busy={change.isPending}
            aria-label={armed ? `Disarm the rack ${id}` : `Arm the rack ${id}`}
            onClick={() => change.mutate({ armed: !armed })}
          >
            {armed ? 'Disarm' : 'Arm'}
          </Button>
          <Button aria-label={`Change the policy of the rack ${id}`} onClick={() => setEdited(true)}>
            Change the policy
          </Button>
          <PurgeButton rack={rack} />
          {events > 0 && <Link href={transcriptPath(id)}>View events</Link>}
        </Row>
      )}
      {change.isError && <FaultNote error={change.error} />}
    </Panel>
  );
}

/**
 * Path of a transcript query in the observe view, which shows what the grants allow. Long columns must be selected by
 * name.
 */
const transcriptPath = (rack: string): string => {
  const query = {
    surface: 'transcript',
    select: ['seq', 'at', 'kind', 'subject', 'role', 'model', 'content', 'redacted'],
    where: [{ column: 'rack', op: 'eq', value: rack }],
  };
  return `/console/observe/explore?q=${encodeURIComponent(JSON.stringify(query))}`;
};
