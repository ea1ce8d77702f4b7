import { agentsCss as css } from '../../agents/parts.tsx';
import type { Consent } from '../../agents/schemas.ts';
import { formatRelativeTime, formatTime } from '../../../ui/format.ts';
import { Badge, Facts } from '../../../ui/index.tsx';

const NameList = ({ names, emptyText }: { names: readonly string[]; emptyText: string }) =>
  names.length === 0 ? (
    <span className={css['quiet']}>{emptyText}</span>
  ) : (
    <span className={css['names']}>
      {names.map((name) => (
        <code key={name}>{name}</code>
      ))}
    </span>
  );

/** Permissions of all agents of a workflow together. Running the workflow consents to them. */
export function ConsentFacts({ consent }: { consent: Consent }) {
  const { tools, read, write, network, models, workflows, workspace, schedule, destructive } = consent;
  return (
    <>
      <Facts
        facts={[
          ['Starts', schedule ? scheduleText(schedule) : 'manually'],
          ['Models', <NameList key="models" names={models} emptyText="none" />],
          ...(workflows.length === 0
            ? []
            : [['Runs workflows', <NameList key="workflows" names={workflows} emptyText="none" />] as const]),
          ['Tools', <NameList key="tools" names={tools} emptyText="none" />],
          ['Read paths', <NameList key="read" names={read} emptyText="nothing" />],
          ['Write paths', <NameList key="write" names={write} emptyText="nothing" />],
          ['Network', <NameList key="network" names={network} emptyText="no host" />],
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

const scheduleText = ({ cron, tz, next }: NonNullable<Consent['schedule']>) => (
  <span>
    <code>{cron}</code> {tz}
    {next !== undefined && `, next ${formatTime(next)} (${formatRelativeTime(next)})`}
  </span>
);
