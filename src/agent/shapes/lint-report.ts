import { z } from 'zod';
import { globList, text } from './common.ts';

export const lintFinding = z.object({
  code: text.describe('Stable, snake_case.'),
  path: text.describe('Dotted path of the member; empty for the whole source.'),
  message: text,
  line: z.int().describe('From 1.'),
  column: z.int().describe('From 1.'),
});
export type LintFinding = z.infer<typeof lintFinding>;

/** The rights of all agents of a workflow together, for a person to review. */
export const consent = z
  .object({
    tools: globList,
    read: globList,
    write: globList,
    network: globList,
    models: globList,
    workflows: z
      .array(text)
      .describe('Workflows that its steps run, and those that these run; their rights are included.'),
    workspace: text
      .optional()
      .describe("Name of the input that holds the workspace folder; '.' in paths stands for it."),
    schedule: z.object({ cron: text, tz: text, next: text.optional().describe('RFC 3339, UTC.') }).nullable(),
    destructive: z
      .array(
        z.object({
          tool: text,
          approval: z.enum(['person', 'automatic']).describe('Who approves its changes.'),
        }),
      )
      .describe('Granted tools that make changes.'),
  })
  .meta({ id: 'WorkflowConsent' });
export type Consent = z.infer<typeof consent>;

const reportMembers = {
  ok: z.boolean(),
  name: text.optional(),
  errors: z.array(lintFinding),
  warnings: z.array(lintFinding),
};
export const lintReport = z.object(reportMembers).meta({ id: 'LintReport' });
export type LintReport = z.infer<typeof lintReport>;
export const lintReportWithConsent = z
  .object({
    ...reportMembers,
    consent: consent.optional().describe('Present when the source could be parsed.'),
  })
  .meta({ id: 'LintReportWithConsent' });
