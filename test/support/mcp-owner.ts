/**
 * A host of one server that ends badly: `node mcp-owner.ts MODE_OF_SERVER exit|wait [FOLDER]`. Prints the pid of the
 * server, which is recorded in the folder.
 */
import { StartedProcesses } from '../../src/agent/started-processes.ts';
import { systemClock } from '../../src/agent/clock.ts';
import { McpServers } from '../../src/agent/mcp/index.ts';
import { childConfig } from './mcp-servers.ts';

const [mode = '', end, folder] = process.argv.slice(2);
const servers = new McpServers([childConfig(mode)], {
  version: '1',
  clock: systemClock,
  onNotice: () => undefined,
  processes: new StartedProcesses(folder),
});
servers.start();
await servers.servers[0]?.firstAttempt;
const facts = servers.tools().find(({ name }) => name === 'mcp_notes_facts');
const payload = { server: 'notes', tool: 'facts', arguments: {}, pin: facts?.pin };
const output =
  facts?.kind === 'change' ? (await facts.apply(payload, new AbortController().signal)).output : '{}';
process.stdout.write(`${(JSON.parse(output) as { pid: number }).pid}\n`);
if (end === 'exit') process.exit(0);
setInterval(() => undefined, 1000);
