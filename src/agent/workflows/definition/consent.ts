import { globMatches } from '../../agents/name-glob.ts';
import type { AgentSpec } from '../../shapes/agent-spec.ts';
import type { Consent } from '../../shapes/lint-report.ts';
import type { ToolCatalogEntry } from '../../shapes/tool.ts';
import type { Ensemble } from './ensemble.ts';
import { findCronFault, findNextFiring, findTimeZoneFault } from './schedule.ts';

export type KnownTool = Pick<ToolCatalogEntry, 'name' | 'destructive'>;
/** The part of an agent that a person consents to. */
export type AgentRights = Pick<AgentSpec, 'grants' | 'model'>;

/**
 * Summarizes the rights of a workflow's agents.
 * @param agents the agents that its steps use, and those of the workflows that its steps run
 */
export function summarizeConsent(
  { entry, workspace }: Pick<Ensemble, 'entry' | 'workspace'>,
  agents: readonly AgentRights[],
  {
    tools,
    now,
    workflows,
  }: { readonly tools: readonly KnownTool[]; readonly now: Date; readonly workflows: readonly string[] },
): Consent {
  const collect = (pick: (agent: AgentRights) => readonly string[]) =>
    [...new Set(agents.flatMap(pick))].toSorted();
  const changeTools = (agent: AgentRights) =>
    tools.filter(
      ({ name, destructive }) => destructive && agent.grants.tools.some((glob) => globMatches(glob, name)),
    );
  const isAutomatic = (name: string) =>
    agents.some(
      (agent) =>
        changeTools(agent).some((tool) => tool.name === name) &&
        agent.grants.auto_approve.some((glob) => globMatches(glob, name)),
    );
  const changeToolNames = [
    ...new Set(agents.flatMap((agent) => changeTools(agent).map(({ name }) => name))),
  ].toSorted();
  return {
    tools: collect(({ grants }) => grants.tools),
    read: collect(({ grants }) => grants.read),
    write: collect(({ grants }) => grants.write),
    network: collect(({ grants }) => grants.network),
    models: collect(({ model }) => [model]),
    workflows: [...workflows],
    ...(workspace ? { workspace: workspace.input } : {}),
    schedule: entry?.kind === 'schedule' ? summarizeSchedule(entry.cron, entry.tz, now) : null,
    destructive: changeToolNames.map((tool) => ({
      tool,
      approval: isAutomatic(tool) ? 'automatic' : 'person',
    })),
  };
}

function summarizeSchedule(cron: string, tz: string, now: Date): Consent['schedule'] {
  const isInvalid = findCronFault(cron) !== undefined || findTimeZoneFault(tz) !== undefined;
  const next = isInvalid ? undefined : findNextFiring(cron, tz, now)?.toISOString();
  return { cron, tz, ...(next === undefined ? {} : { next }) };
}
