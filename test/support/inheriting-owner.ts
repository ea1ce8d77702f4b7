/**
 * What the programs that a host starts see of descriptors that the host itself inherited: `node inheriting-owner.ts FD...`.
 * Prints the output of a command in the sandbox and of an MCP server.
 */
import { builtinTools } from '../../src/agent/tools/builtin/builtin-tools.ts';
import { ChildTransport } from '../../src/agent/mcp/child-transport.ts';
import { Bubblewrap } from '../../src/agent/tools/sandbox/bubblewrap.ts';

const fds = process.argv.slice(2);
const script = fds.map((fd) => `echo "$(cat /proc/self/fd/${fd} 2>&1)"; echo seen >&${fd};`).join(' ');
const argv = ['bash', '-c', `${script} true`];

const none = () => Promise.resolve([]);
const tools = builtinTools({
  forbidden: [],
  sandbox: await Bubblewrap.probe(),
  lab: () => {
    throw new Error('no lab');
  },
  observe: { sessions: none, receipts: none, pending: none, telemetry: none, health: none },
}).tools();
const command = tools.find(({ name }) => name === 'run_command');
const grants = { tools: [], read: [], write: [], network: [], auto_approve: [] };
const { signal } = new AbortController();
if (command?.kind !== 'change') throw new Error('no run_command');
const proposal = await command.propose(
  { argv, intent: 'to look' },
  { agent: 'a', grants, cwd: undefined, signal },
);
if ('ok' in proposal) throw new Error(proposal.output);
process.stdout.write((await command.apply(proposal.payload, signal)).output);

const args = ['-c', `{ ${script} } >&2; cat >&2; sleep 0.2`];
const server = new ChildTransport({
  kind: 'stdio',
  program: 'bash',
  args,
  inherited: process.env,
  env: {},
  cwd: undefined,
} as never);
const ended = Promise.withResolvers<void>();
Object.assign(server, {
  onclose: ended.resolve,
  onerror: (error: Error) => process.stdout.write(`\n${error.message}\n`),
});
await server.start();
await server.close();
await ended.promise;
