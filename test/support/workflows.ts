import { type LintResult, lintEnsemble } from '../../src/agent/workflows/definition/lint-ensemble.ts';
import { type AgentSpec, agentSpec } from '../../src/agent/shapes/agent-spec.ts';
import type { ToolCatalogEntry } from '../../src/agent/shapes/tool.ts';

const tool = (name: string, destructive = false): ToolCatalogEntry => ({
  name,
  description: name,
  source: 'builtin',
  input_schema: { type: 'object' },
  destructive,
  availability: destructive ? 'gated' : 'available',
});

/** A catalog such as a host has. */
export const catalog: ToolCatalogEntry[] = [
  ...['fs_list', 'fs_read', 'fs_search', 'http_get'].map((name) => tool(name)),
  ...['lab_graph', 'lab_parts', 'lab_ops', 'lab_stub', 'lab_register', 'lab_parity', 'lab_bench'].map(
    (name) => tool(name),
  ),
  ...['observe_sessions', 'observe_receipts', 'observe_health'].map((name) => tool(name)),
  ...['fs_write', 'fs_edit', 'fs_delete', 'run_command', 'lab_bind', 'lab_clear', 'lab_save'].map((name) =>
    tool(name, true),
  ),
];

/** Stored beside the workflows. */
export const storedAgents: Readonly<Record<string, AgentSpec>> = {
  helper: agentSpec.parse({
    name: 'helper',
    instructions: 'Help.',
    grants: { tools: ['fs_write'], write: ['/srv'] },
  }),
};

/** Workflows that others run. */
const storedWorkflows: Readonly<Record<string, string>> = {
  inner: `[ensemble]
name = "inner"
[inputs.topic]
type = "string"
[agents.reader]
instructions = "Read."
model = "other"
grants = { tools = ["fs_read"], read = ["/inner"] }
[[steps]]
id = "read"
agent = "reader"
prompt = "{{inputs.topic}}"
`,
  circle: '[ensemble]\nname = "circle"\n[[steps]]\nid = "a"\nworkflow = "w"\n',
};

export const lintText = (source: string): Promise<LintResult> =>
  lintEnsemble(source, {
    tools: catalog,
    agent: (name) => Promise.resolve(storedAgents[name]),
    workflow: (name) => Promise.resolve(storedWorkflows[name]),
    now: new Date('2026-01-01T00:00:00Z'),
  });

interface Parts {
  readonly name?: string;
  /** More of `[ensemble]`. */
  readonly header?: string;
  /** More of `[agents.worker]`, and further tables. */
  readonly rest?: string;
  /** More of its only step. */
  readonly step?: string;
  /** Instead of that one. */
  readonly steps?: string;
}

/** A workflow that lints without findings. */
export function workflow({
  name = 'plain',
  header = '',
  rest = '',
  step = 'prompt = "Go."',
  steps,
}: Parts = {}) {
  const only = `[[steps]]\nid = "only"\nagent = "worker"\n${step}\n`;
  return `[ensemble]
name = "${name}"
${header}
[agents.worker]
instructions = "Work."
${rest}
${steps ?? only}`;
}
