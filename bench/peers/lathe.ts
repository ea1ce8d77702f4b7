import { loadEngine } from '../../src/engine/index.ts';
import { timeGeneration } from '../generation.ts';
import { benchPlatform } from '../platform.ts';
import { runContestant } from './protocol.ts';

runContestant(async ({ modelPath, adapter }) => {
  const engine = await loadEngine(benchPlatform(), {
    model: modelPath,
    // Random weights generate repetitive text, which would favor lathe.
    speculation: 'off',
    ...(adapter === undefined ? {} : { adapter }),
  });
  const { description, software } = engine.adapter;
  return {
    name: 'lathe',
    adapter: description,
    software,
    generate: (order) => timeGeneration(engine, order),
  };
});
