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
/** As it was sent, so that what is not known is kept; the agents themselves check it. */
const sentAgent = jsonObject('expected an AgentSpec').meta({
  id: 'NewAgentSpec',
  allOf: [{ $ref: '#/$defs/AgentSpec' }],
});
const params = { name: 'Of the agent.' };
const unknown = refusal('There is no such agent.');
const invalid = refusal('Each fault of the body, of its name and of its grants is named.');

/** Stored agents. */
export function agentsRoutes(stored: StoredAgents): Route[] {
  const list = defineRoute({
    method: 'GET',
    path: '/agent/v1/agents',
    operationId: 'listAgents',
    summary: 'The agents by name, the built-in `default` with them',
    answers: { 200: json('The agents.', agents) },
    handle: async () => Response.json(await stored.list()),
  });

  const create = defineRoute({
    method: 'POST',
    path: '/agent/v1/agents',
    operationId: 'createAgent',
    summary: 'Store a new agent',
    body: sentAgent,
    answers: { 201: json('As it is stored.', agentSpec), 400: invalid, 409: refusal('The name is taken.') },
    handle: async ({ body, by }) => Response.json(await stored.create(body, by), { status: 201 }),
  });

  const one = defineRoute({
    method: 'GET',
    path: '/agent/v1/agents/{name}',
    operationId: 'getAgent',
    summary: 'An agent',
    params,
    answers: { 200: json('The agent.', agentSpec), 404: unknown },
    handle: async ({ params: { name = '' } }) => Response.json(await stored.get(name)),
  });

  const put = defineRoute({
    method: 'PUT',
    path: '/agent/v1/agents/{name}',
    operationId: 'putAgent',
    summary: 'Store an agent, in the place of one of that name',
    description: 'The body has the name of the path.',
    params,
    body: sentAgent,
    answers: { 200: json('As it is stored.', agentSpec), 400: invalid },
    handle: async ({ params: { name = '' }, body, by }) => Response.json(await stored.put(name, body, by)),
  });

  const remove = defineRoute({
    method: 'DELETE',
    path: '/agent/v1/agents/{name}',
    operationId: 'deleteAgent',
    summary: 'Delete a stored agent',
    description: 'Deleting a stored `default` brings the built-in one back.',
    params,
    answers: { 204: { description: 'It is gone.' }, 404: unknown },
    async handle({ params: { name = '' }, by }) {
      await stored.delete(name, by);
      return new Response(null, { status: 204 });
    },
  });

  return [list, create, one, put, remove];
}
