import type { AgentSpec } from '../shapes/agent-spec.ts';

/** There without being stored. Storing one of its name replaces it; deleting that brings it back. */
export const defaultAgent: AgentSpec = {
  name: 'default',
  description: 'Answers, and may look at the kernel lab and at what the host observed.',
  instructions:
    'You are a helpful assistant. Use your tools where they help, and say plainly what you do not know.',
  model: 'resident',
  grants: { tools: ['lab_*', 'observe_*'], read: [], write: [], network: [], auto_approve: [] },
};
