import type { AgentSpec } from '../shapes/agent-spec.ts';

/**
 * There without being stored. Storing one of its name replaces it; deleting that brings it back. It has no tools: what
 * tools take of a prompt would fill the context of a small model.
 */
export const defaultAgent: AgentSpec = {
  name: 'default',
  description: 'Answers, without tools.',
  instructions: 'You are a helpful assistant. Say plainly what you do not know.',
  model: 'resident',
  grants: { tools: [], read: [], write: [], network: [], auto_approve: [] },
};
