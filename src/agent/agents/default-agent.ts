import type { AgentSpec } from '../shapes/agent-spec.ts';

/**
 * Agent that exists without being stored. Storing an agent of this name replaces it; deleting that agent restores it.
 * It has no tools, because tool descriptions would fill the context of a small model.
 */
export const defaultAgent: AgentSpec = {
  name: 'default',
  description: 'Answers, without tools.',
  instructions: 'You are a helpful assistant. Say plainly what you do not know.',
  model: 'resident',
  grants: { tools: [], read: [], write: [], network: [], auto_approve: [] },
};
