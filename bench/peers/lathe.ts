import { loadEngine } from '../../src/engine/index.ts';
import { nodePlatform } from '../../src/platform/node.ts';
import { timeGeneration } from '../generation.ts';
import { contend } from './protocol.ts';

contend(async ({ modelPath, adapter }) => {
  const engine = await loadEngine(nodePlatform(), {
    model: modelPath,
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
