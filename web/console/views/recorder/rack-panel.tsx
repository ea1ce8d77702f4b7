import { useState } from 'react';
import { Link } from 'wouter';
import { formatAgo, formatBytes, formatNumber, formatTime } from '../../parts/format.ts';
import { Badge, Button, Facts, FaultNote, Panel, Row } from '../../parts/index.tsx';
import { PolicyForm } from './policy-form.tsx';
import { PurgeButton } from './purge.tsx';
import { useRackChange } from './recorder.ts';
import type { Rack } from './types.ts';

const about: Readonly<Record<Rack['id'], string>> = {
  agent: 'What agents are told, say and do in tasks.',
  completions: 'What is asked of the resident model on every wire, and what it answers.',
  workflows: 'What is said in the steps of runs.',
  gateway: 'What passes through the gateway.',
  external: 'What programs of yours send, with a write token.',
};

/** A rack: whether it keeps anything, by which rules, and what it holds. */
export function RackPanel({ rack }: { rack: Rack }) {
  const { id, armed, policy, events, bytes, oldest, newest } = rack;
  const [isEdited, setEdited] = useState(false);
  const change = useRackChange(id);
  const { days, bytes: most, events: many } = policy.retention;
  return (
    <Panel title={id} tools={armed ? <Badge tone="warn">armed: it records</Badge> : <Badge>disarmed</Badge>}>
      <p>{about[id]}</p>
      <Facts
        facts={[
          ['Keeps', policy.content],
          [
            'At most',
            `${formatNumber(days)} days, ${formatBytes(most)}, ${formatNumber(many)} events; the oldest go first`,
          ],
          [
            'Takes out',
            policy.redact.length === 0 ? (
              'nothing but the host’s own secrets'
            ) : (
              <code key="redact">{policy.redact.join('  ')}</code>
            ),
          ],
          [
            'Holds',
            events === 0
              ? 'nothing'
              : `${formatNumber(events)} events, ${formatBytes(bytes)}${oldest && newest ? `, ${formatTime(oldest)} to ${formatTime(newest)}` : ''}`,
          ],
          ...(rack.changed_at !== null
            ? ([['Changed', `${formatAgo(rack.changed_at)} by ${rack.changed_by ?? 'somebody'}`]] as const)
            : []),
        ]}
      />
      {isEdited ? (
        <PolicyForm rack={rack} close={() => setEdited(false)} />
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
          {events > 0 && <Link href={transcriptOf(id)}>Read what it holds</Link>}
        </Row>
      )}
      {change.isError && <FaultNote error={change.error} />}
    </Panel>
  );
}

/** Of the observe plane: it shows what there are grants to read. Long texts are answered where they are asked for. */
const transcriptOf = (rack: string): string => {
  const query = {
    surface: 'transcript',
    select: ['seq', 'at', 'kind', 'subject', 'role', 'model', 'content', 'redacted'],
    where: [{ column: 'rack', op: 'eq', value: rack }],
  };
  return `/console/observe?q=${encodeURIComponent(JSON.stringify(query))}`;
};
