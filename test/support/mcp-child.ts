/** A server over stdio, as a separate program: `node mcp-child.ts MODE [DESCRIPTION]`. */
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { toolServer } from './mcp-tools.ts';

const [mode, description] = process.argv.slice(2);
const serve = () =>
  toolServer({
    ...(description === undefined ? {} : { description }),
    resources: mode === 'resources',
    write: (text) => process.stdout.write(text),
  }).connect(new StdioServerTransport());

switch (mode) {
  case 'serve':
  case 'resources':
    await serve();
    break;
  case 'greet':
    process.stdout.write('Welcome to the notes!\n\n');
    await serve();
    break;
  case 'stubborn':
    process.on('SIGTERM', () => undefined);
    // Its owner may be killed while it answers.
    process.stdout.on('error', () => undefined);
    setInterval(() => undefined, 1000);
    await serve();
    break;
  case 'silent':
    process.on('SIGTERM', () => undefined);
    setInterval(() => undefined, 1000);
    break;
  case 'die':
    process.stderr.write('first line\nno database at /x\n');
    process.exit(3);
  case 'garbage':
    for (;;) {
      if (!process.stdout.write('all your base\n'.repeat(1000)))
        await new Promise((resolve) => process.stdout.once('drain', resolve));
    }
  case 'endless':
    for (;;) {
      if (!process.stdout.write('x'.repeat(100_000)))
        await new Promise((resolve) => process.stdout.once('drain', resolve));
    }
  default:
    throw new Error(`no mode ${mode}`);
}
