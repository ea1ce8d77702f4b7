import { expect, it } from 'vitest';
import { commandOf } from '../../src/terminal/program.ts';

it.each([
  ['/home/ann/lathe/dist/host.js', 'node dist/lab.js'],
  ['/home/ann/lathe/src/host.ts', 'node dist/lab.js'],
  ['', 'node dist/lab.js'],
  ['/usr/local/bin/lathe', 'lathe-lab'],
  ['/home/ann/app/node_modules/.bin/lathe', 'npx lathe-lab'],
  ['/home/ann/app/node_modules/lathe/dist/host.js', 'npx lathe-lab'],
  ['C:\\app\\node_modules\\lathe\\dist\\host.js', 'npx lathe-lab'],
])('a process that was started as %s names the lab %s', (startedAs, command) => {
  expect(commandOf('lab', startedAs)).toBe(command);
});
