import { z } from 'zod';
import { nonEmptyText, globList, resourceName, text } from './common.ts';

const pathList = z.array(nonEmptyText.max(4096, 'at most 4096 characters'), {
  error: 'expected a list of paths',
});

/** What an agent may do. What is not granted is refused; nothing is granted by default. */
export const grants = z
  .object(
    {
      tools: globList.default([]).describe('Names of tools; `*` stands for any characters.'),
      read: pathList.default([]).describe('Absolute paths; files below them may be read.'),
      write: pathList.default([]).describe('Absolute paths; files below them may be written and read.'),
      network: globList
        .default([])
        .describe('Host names; `*.example.com` is every name below it. `host:port` names one port.'),
      auto_approve: globList.default([]).describe('Tools whose changes are applied without asking a person.'),
    },
    { error: 'expected an object of grants' },
  )
  .meta({ id: 'Grants' });
export type Grants = z.infer<typeof grants>;

/** Grants of a request. An absent member keeps the agent's own value. */
export const partialGrants = z
  .object(
    {
      tools: globList.optional(),
      read: pathList.optional(),
      write: pathList.optional(),
      network: globList.optional(),
      auto_approve: globList.optional(),
    },
    { error: 'expected an object of grants' },
  )
  .meta({ id: 'SomeGrants' });
export type PartialGrants = z.infer<typeof partialGrants>;

const numberBetween = (least: number, most: number) => {
  const error = `expected a number from ${least} to ${most}`;
  return z.number({ error }).min(least, error).max(most, error);
};
const integerBetween = (least: number, most: number) => {
  const error = `expected a whole number from ${least} to ${most}`;
  return z.int({ error }).min(least, error).max(most, error);
};

export const agentSampling = z
  .object({
    temperature: numberBetween(0, 2).optional(),
    top_p: numberBetween(0, 1).optional(),
    top_k: integerBetween(0, 1_000_000).optional(),
    min_p: numberBetween(0, 1).optional(),
    seed: integerBetween(0, 4_294_967_295).optional(),
  })
  .meta({ id: 'AgentSampling' });
export type AgentSampling = z.infer<typeof agentSampling>;

export const agentLimits = z
  .object({
    max_turns: integerBetween(1, 1000).optional().describe('Maximum answers of the model; default 16.'),
    max_tokens: integerBetween(1, 10_000_000)
      .optional()
      .describe('Maximum completion tokens of all answers together.'),
    timeout_secs: numberBetween(0.1, 86_400).optional().describe('Wall time; default 600.'),
    max_repeated_failures: integerBetween(1, 1000)
      .optional()
      .describe('How often the same call may fail while no other call changes anything; default 4.'),
  })
  .meta({ id: 'AgentLimits' });
export type AgentLimits = z.infer<typeof agentLimits>;

/** Unknown members are stored, too. */
export const agentSpec = z
  .looseObject({
    name: resourceName,
    description: text.max(1000, 'at most 1000 characters').optional(),
    instructions: text.max(100_000, 'at most 100000 characters'),
    model: nonEmptyText
      .max(300, 'at most 300 characters')
      .default('resident')
      .describe('`resident`, or the id of a model of the gateway that the host was configured with.'),
    grants: grants.prefault({}),
    sampling: agentSampling.optional(),
    limits: agentLimits.optional(),
    tool_choice: z
      .union([z.enum(['auto', 'required']), z.object({ name: nonEmptyText })], {
        error: "expected 'auto', 'required' or {\"name\": a tool}",
      })
      .optional()
      .describe('Whether the first turn must call a tool. Default `auto`.'),
  })
  .meta({ id: 'AgentSpec' });
export type AgentSpec = z.infer<typeof agentSpec>;
