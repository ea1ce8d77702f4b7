import { z } from 'zod';
import type { StoredAgents } from '../../agent/agents/stored-agents.ts';
import { agentSpec } from '../../agent/shapes/agent-spec.ts';
import { hostError } from '../error-schema.ts';
import { jsonObject } from '../../http/schema/json-object.ts';
import { defineRoute, type Route } from '../../http/route.ts';

const refusal = (description: string) => ({ description, content: { 'application/json': hostError } });
const json = (description: string, schema: z.ZodType) => ({
  description,
  content: { 'application/json': schema },
});
const agents = z.array(agentSpec).meta({ id: 'AgentSpecs' });
/** The body as sent, so that unknown members are kept; the agent store validates it. */
const sentAgent = jsonObject('expected an AgentSpec').meta({
  id: 'NewAgentSpec',
  allOf: [{ $ref: '#/$defs/AgentSpec' }],
});
const params = { name: 'Name of the agent.' };
const unknown = refusal('No agent has this name.');
const invalid = refusal('The body, the name or the grants are invalid; every violation is listed.');

/** Routes for stored agents. */
export function agentsRoutes(stored: StoredAgents): Route[] {
  const list = defineRoute({
    method: 'GET',
    path: '/agent/v1/agents',
    operationId: 'listAgents',
    summary: 'List the agents, including the built-in `default`',
    answers: { 200: json('The agents.', agents) },
    handle: async () => Response.json(await stored.list()),
  });

  const create = defineRoute({
    method: 'POST',
    path: '/agent/v1/agents',
    operationId: 'createAgent',
    summary: 'Store a new agent',
    body: sentAgent,
    answers: { 201: json('The stored agent.', agentSpec), 400: invalid, 409: refusal('The name is taken.') },
    handle: async ({ body, by }) => Response.json(await stored.create(body, by), { status: 201 }),
  });

  const one = defineRoute({
    method: 'GET',
    path: '/agent/v1/agents/{name}',
    operationId: 'getAgent',
    summary: 'Get an agent',
    params,
    answers: { 200: json('The agent.', agentSpec), 404: unknown },
    handle: async ({ params: { name = '' } }) => Response.json(await stored.get(name)),
  });

  const put = defineRoute({
    method: 'PUT',
    path: '/agent/v1/agents/{name}',
    operationId: 'putAgent',
    summary: 'Create or replace an agent',
    description: 'The name in the body must match the path.',
    params,
    body: sentAgent,
    answers: { 200: json('The stored agent.', agentSpec), 400: invalid },
    handle: async ({ params: { name = '' }, body, by }) => Response.json(await stored.put(name, body, by)),
  });

  const remove = defineRoute({
    method: 'DELETE',
    path: '/agent/v1/agents/{name}',
    operationId: 'deleteAgent',
    summary: 'Delete a stored agent',
    description: 'Deleting a stored `default` restores the built-in one.',
    params,
    answers: { 204: { description: 'The agent was deleted.' }, 404: unknown },
    async handle({ params: { name = '' }, by }) {
      await stored.delete(name, by);
      return new Response(null, { status: 204 });
    },
  });

  return [list, create, one, put, remove];
}
