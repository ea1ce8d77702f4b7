import { stat } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import { isWithin } from '../tools/paths/resolve-path.ts';
import { narrowGrants } from '../agents/narrow-grants.ts';
import { AgentError, type Fault } from '../errors.ts';
import type { ChatModelRequest } from '../chat-model.ts';
import type { AgentStore, TurnLoopRequest } from '../services.ts';
import type { AgentSpec } from '../shapes/agent-spec.ts';
import type { TaskRequest } from '../shapes/task.ts';

export type TaskPlan = Omit<TurnLoopRequest, 'owner' | 'trace' | 'onStaged'>;

/** Resolves a request and its agent to a plan. Throws with all faults of the request at once. */
export async function planTask(request: TaskRequest, agents: AgentStore): Promise<TaskPlan> {
  const faults: Fault[] = [];
  const agent = await findAgent(request.agent, agents, faults);
  const { cwd, inputs, limits, prompt, sampling } = request;
  if (cwd !== undefined && (!isAbsolute(cwd) || cwd.includes('\0')))
    faults.push({ path: 'cwd', message: 'expected an absolute path' });
  else if (cwd !== undefined && agent && (await isMissing(cwd, agent)))
    faults.push({ path: 'cwd', message: 'there is no such folder' });
  const narrowed = agent && narrowGrants(agent.grants, request.grants ?? {});
  if (narrowed?.faults) faults.push(...narrowed.faults);
  if (!agent || !narrowed?.grants || faults.length > 0) throw invalidRequest(faults);
  const responseFormat = toResponseFormat(request.response_format);
  return {
    agent: { ...agent, grants: narrowed.grants, sampling: { ...agent.sampling, ...sampling } },
    prompt,
    cwd,
    ...(inputs ? { inputs } : {}),
    ...(limits ? { limits } : {}),
    ...(responseFormat ? { responseFormat } : {}),
  };
}

/** Whether a folder does not exist. What lies outside the grants is not looked at, so that nothing is learned of it. */
async function isMissing(cwd: string, { grants }: AgentSpec): Promise<boolean> {
  if (![...grants.read, ...grants.write].some((granted) => isWithin(granted, cwd))) return false;
  const found = await stat(cwd).catch(() => undefined);
  return found?.isDirectory() !== true;
}

async function findAgent(name: string, agents: AgentStore, faults: Fault[]): Promise<AgentSpec | undefined> {
  try {
    return await agents.get(name);
  } catch (error) {
    if (!(error instanceof AgentError) || error.kind !== 'not_found') throw error;
    const message = `there is no agent '${name}'; GET /agent/v1/agents lists them`;
    faults.push({ path: 'agent', message });
    return undefined;
  }
}

function toResponseFormat(format: TaskRequest['response_format']): ChatModelRequest['responseFormat'] {
  if (!format || format.type === 'text') return undefined;
  if (format.type === 'json_object') return { type: 'json' };
  return { type: 'json_schema', schema: format.json_schema.schema };
}

function invalidRequest(faults: readonly Fault[]): AgentError {
  const messages = faults.slice(0, 10).map(({ path, message }) => `${path}: ${message}`);
  const more = faults.length > messages.length ? '; and more' : '';
  return new AgentError('invalid', 'invalid_value', `${messages.join('; ')}${more}.`, { faults });
}
