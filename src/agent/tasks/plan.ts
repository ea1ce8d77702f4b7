import { isAbsolute } from 'node:path';
import { narrow } from '../agents/narrow.ts';
import { AgentError, type Fault } from '../errors.ts';
import type { PlannerRequest } from '../planner.ts';
import type { Agents, TurnsRequest } from '../services.ts';
import type { AgentSpec } from '../shapes/agent-spec.ts';
import type { TaskRequest } from '../shapes/task.ts';

export type Plan = Omit<TurnsRequest, 'about' | 'within' | 'onStaged'>;

/** Resolves a request and its agent to a plan. Throws with all faults of the request at once. */
export async function planTask(request: TaskRequest, agents: Agents): Promise<Plan> {
  const faults: Fault[] = [];
  const agent = await found(request.agent, agents, faults);
  const { cwd, inputs, limits, prompt, sampling } = request;
  if (cwd !== undefined && (!isAbsolute(cwd) || cwd.includes('\0')))
    faults.push({ path: 'cwd', message: 'expected an absolute path' });
  const narrowed = agent && narrow(agent.grants, request.grants ?? {});
  if (narrowed?.faults) faults.push(...narrowed.faults);
  if (!agent || !narrowed?.grants || faults.length > 0) throw invalid(faults);
  const responseFormat = toFormat(request.response_format);
  return {
    agent: { ...agent, grants: narrowed.grants, sampling: { ...agent.sampling, ...sampling } },
    prompt,
    cwd,
    ...(inputs ? { inputs } : {}),
    ...(limits ? { limits } : {}),
    ...(responseFormat ? { responseFormat } : {}),
  };
}

async function found(name: string, agents: Agents, faults: Fault[]): Promise<AgentSpec | undefined> {
  try {
    return await agents.get(name);
  } catch (error) {
    if (!(error instanceof AgentError) || error.kind !== 'not_found') throw error;
    const message = `there is no agent '${name}'; GET /agent/v1/agents lists them`;
    faults.push({ path: 'agent', message });
    return undefined;
  }
}

function toFormat(format: TaskRequest['response_format']): PlannerRequest['responseFormat'] {
  if (!format || format.type === 'text') return undefined;
  if (format.type === 'json_object') return { type: 'json' };
  return { type: 'json_schema', schema: format.json_schema.schema };
}

function invalid(faults: readonly Fault[]): AgentError {
  const told = faults.slice(0, 10).map(({ path, message }) => `${path}: ${message}`);
  const more = faults.length > told.length ? '; and more' : '';
  return new AgentError('invalid', 'invalid_value', `${told.join('; ')}${more}.`, { faults });
}
