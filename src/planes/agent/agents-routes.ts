import { z } from 'zod';
import type { StoredAgents } from '../../agent/agents/stored-agents.ts';
import { agentSpec } from '../../agent/shapes/agent-spec.ts';
import { hostError } from '../error-schema.ts';
import { jsonObject } from '../../http/schema/json-object.ts';
import { defineRoute, type Route } from '../../http/route.ts';

const errorResponse = (description: string) => ({ description, content: { 'application/json': hostError } });
const jsonResponse = (description: string, schema: z.ZodType) => ({
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
const notFoundResponse = errorResponse('No agent has this name.');
const invalidResponse = errorResponse(
  'The body, the name or the grants are invalid; every violation is listed.',
);

/** Routes for stored agents. */
export function agentsRoutes(agentStore: StoredAgents): Route[] {
  const listAgents = defineRoute({
    method: 'GET',
    path: '/agent/v1/agents',
    operationId: 'listAgents',
    summary: 'List the agents, including the built-in `default`',
    responses: { 200: jsonResponse('The agents.', agents) },
    handle: async () => Response.json(await agentStore.list()),
  });

  const createAgent = defineRoute({
    method: 'POST',
    path: '/agent/v1/agents',
    operationId: 'createAgent',
    summary: 'Store a new agent',
    body: sentAgent,
    responses: {
      201: jsonResponse('The stored agent.', agentSpec),
      400: invalidResponse,
      409: errorResponse('The name is taken.'),
    },
    handle: async ({ body, by }) => Response.json(await agentStore.create(body, by), { status: 201 }),
  });

  const getAgent = defineRoute({
    method: 'GET',
    path: '/agent/v1/agents/{name}',
    operationId: 'getAgent',
    summary: 'Get an agent',
    params,
    responses: { 200: jsonResponse('The agent.', agentSpec), 404: notFoundResponse },
    handle: async ({ params: { name = '' } }) => Response.json(await agentStore.get(name)),
  });

  const putAgent = defineRoute({
    method: 'PUT',
    path: '/agent/v1/agents/{name}',
    operationId: 'putAgent',
    summary: 'Create or replace an agent',
    description: 'The name in the body must match the path.',
    params,
    body: sentAgent,
    responses: { 200: jsonResponse('The stored agent.', agentSpec), 400: invalidResponse },
    handle: async ({ params: { name = '' }, body, by }) =>
      Response.json(await agentStore.put(name, body, by)),
  });

  const deleteAgent = defineRoute({
    method: 'DELETE',
    path: '/agent/v1/agents/{name}',
    operationId: 'deleteAgent',
    summary: 'Delete a stored agent',
    description: 'Deleting a stored `default` restores the built-in one.',
    params,
    responses: { 204: { description: 'The agent was deleted.' }, 404: notFoundResponse },
    async handle({ params: { name = '' }, by }) {
      await agentStore.delete(name, by);
      return new Response(null, { status: 204 });
    },
  });

  return [listAgents, createAgent, getAgent, putAgent, deleteAgent];
}
