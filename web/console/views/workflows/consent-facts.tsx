import { agentsCss as css } from '../../agents/parts.tsx';
import type { Consent } from '../../agents/shapes.ts';
import { formatAgo, formatTime } from '../../parts/format.ts';
import { Badge, Facts } from '../../parts/index.tsx';

const Names = ({ names, none }: { names: readonly string[]; none: string }) =>
  names.length === 0 ? (
    <span className={css['quiet']}>{none}</span>
  ) : (
    <span className={css['names']}>
      {names.map((name) => (
        <code key={name}>{name}</code>
      ))}
    </span>
  );

/** What all agents of a workflow together may do: running it is agreeing to that. */
export function ConsentFacts({ consent }: { consent: Consent }) {
  const { tools, read, write, network, models, workspace, schedule, destructive } = consent;
  return (
    <>
      <Facts
        facts={[
          ['Begins', schedule ? whenOf(schedule) : 'when it is run'],
          ['Models', <Names key="models" names={models} none="none" />],
          ['Tools', <Names key="tools" names={tools} none="none" />],
          ['Reads below', <Names key="read" names={read} none="nothing" />],
          ['Writes below', <Names key="write" names={write} none="nothing" />],
          ['Reaches', <Names key="network" names={network} none="no host" />],
          ...(workspace === undefined
            ? []
            : [
                [
                  'Folder',
                  <span key="folder">
                    <code>.</code> is the folder that the input <code>{workspace}</code> names
                  </span>,
                ] as const,
              ]),
        ]}
      />
      {destructive.map(({ tool, approval }) => (
        <p key={tool}>
          <code>{tool}</code> changes something:{' '}
          <Badge tone={approval === 'automatic' ? 'bad' : 'warn'}>
            {approval === 'automatic' ? 'applied without asking' : 'a person approves'}
          </Badge>
        </p>
      ))}
    </>
  );
}

const whenOf = ({ cron, tz, next }: NonNullable<Consent['schedule']>) => (
  <span>
    <code>{cron}</code> {tz}
    {next !== undefined && `, next ${formatTime(next)} (${formatAgo(next)})`}
  </span>
);
