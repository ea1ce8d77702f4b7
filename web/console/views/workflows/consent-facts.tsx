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

/** Permissions of all agents of a workflow together. Running the workflow consents to them. */
export function ConsentFacts({ consent }: { consent: Consent }) {
  const { tools, read, write, network, models, workspace, schedule, destructive } = consent;
  return (
    <>
      <Facts
        facts={[
          ['Starts', schedule ? whenOf(schedule) : 'manually'],
          ['Models', <Names key="models" names={models} none="none" />],
          ['Tools', <Names key="tools" names={tools} none="none" />],
          ['Read paths', <Names key="read" names={read} none="nothing" />],
          ['Write paths', <Names key="write" names={write} none="nothing" />],
          ['Network', <Names key="network" names={network} none="no host" />],
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
          <code>{tool}</code> makes changes:{' '}
          <Badge tone={approval === 'automatic' ? 'bad' : 'warn'}>
            {approval === 'automatic' ? 'applied without approval' : 'needs approval'}
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
