import { findGrantFaults } from '../../agents/grant-faults.ts';
import type { Draft } from './draft.ts';
import type { Findings } from './findings.ts';
import { isRelative } from './inputs.ts';

/** Checks the grants of inline agents, and how steps use agents. */
export function checkAgents({ agents, steps, document }: Draft, findings: Findings): void {
  const hasWorkspace = document.value['workspace'] !== undefined;
  let usesWorkspace = false;
  for (const [name, agent] of agents) {
    if (agent === undefined) continue;
    const path = ['agents', name];
    const { read, write } = agent.grants;
    for (const [kind, paths] of Object.entries({ read, write }))
      for (const [index, entry] of paths.entries()) {
        if (!isRelative(entry) || entry.includes('{{')) continue;
        usesWorkspace = true;
        if (!hasWorkspace)
          findings.error(
            'no_workspace',
            [...path, 'grants', kind, index],
            `'${entry.slice(0, 80)}' is in the workspace: say which input names it, [workspace] input = "folder"`,
          );
      }
    // Checked with a sample folder in place of the workspace.
    const toAbsolute = (paths: readonly string[]) =>
      paths.map((entry) => entry.replace(/^\.(?=$|\/)/, '/workspace'));
    const faults = findGrantFaults({ ...agent.grants, read: toAbsolute(read), write: toAbsolute(write) });
    for (const { path: at, message } of faults) {
      const location = [...path, ...at.split('.').map((part) => (/^\d+$/.test(part) ? Number(part) : part))];
      findings.error('bad_grant', location, message);
    }
    for (const [kind, entries] of Object.entries(agent.grants))
      for (const [index, entry] of entries.entries())
        if (entry.includes('{{')) {
          const message = `'${entry.slice(0, 80)}': grants cannot contain templates, because a person agrees to them as written; use [workspace] for a folder that each run names`;
          findings.error('template_in_grant', [...path, 'grants', kind, index], message);
        }
    if (agent.instructions.includes('{{'))
      findings.warn(
        'template_not_filled',
        [...path, 'instructions'],
        'templates in instructions are not filled in: put it into the prompt',
        {
          within: '{{',
        },
      );
    if (!steps.some((step) => step.agent === name))
      findings.warn('unused_agent', path, `no step uses the agent '${name.slice(0, 64)}'`, { at: 'key' });
  }
  if (hasWorkspace && !usesWorkspace)
    findings.warn('unused_workspace', ['workspace'], `no agent is granted anything in it: grant "."`, {
      at: 'key',
    });
  for (const step of steps) {
    const path = ['steps', step.index];
    if (step.has('workflow') && (step.has('agent') || step.has('prompt')))
      findings.error('bad_step', [...path, 'workflow'], 'a step has a workflow or an agent, not both');
    if (step.has('inputs') && !step.has('workflow'))
      findings.error('bad_step', [...path, 'inputs'], 'only a step with a workflow has inputs');
    if (step.has('foreach') && !step.has('workflow') && !step.has('agent'))
      findings.error('bad_step', [...path, 'foreach'], 'only a step with an agent or a workflow is repeated');
    if (step.has('agent') && !step.has('prompt'))
      findings.error('missing_key', [...path, 'agent'], 'a step with an agent has a prompt');
    if (step.has('prompt') && !step.has('agent'))
      findings.error('missing_key', [...path, 'prompt'], 'a step with a prompt has an agent');
    if (!(['agent', 'prompt', 'workflow', 'gate'] as const).some((key) => step.has(key)))
      findings.error('empty_step', path, 'a step has an agent with a prompt, a workflow, or a gate');
    for (const key of step.has('agent')
      ? []
      : (['model', 'output_schema', 'limits', 'retry', 'timeout_secs'] as const))
      if (step.has(key))
        findings.warn('no_effect', [...path, key], `'${key}' has no effect without an agent`, { at: 'key' });
  }
}
