import { formatBytes, formatNumber } from '../ui/format.ts';
import { Badge, Facts, Panel } from '../ui/index.tsx';
import type { Chat } from '../engine/types.ts';
import css from './demo.module.css';

/** Name of the adapter, from the parts that the browser discloses. */
function adapterName({ vendor, architecture, description }: Chat['device']): string {
  const parts = [...new Set([vendor, architecture, description].filter((part) => part !== ''))];
  return parts.length === 0 ? 'not disclosed by the browser' : parts.join(', ');
}

/** Facts about the GPU and the model. */
export function DevicePanel({ chat: { device, model } }: { chat: Chat }) {
  return (
    <Panel
      title="Device and model"
      tools={device.fallback ? <Badge tone="warn">Software adapter</Badge> : <Badge tone="good">GPU</Badge>}
    >
      {device.fallback && (
        <p className={css['note']}>
          The browser returned a fallback adapter, which runs on the CPU. Answers are the same, but slow. To
          use the GPU, update its driver and turn on hardware acceleration in the browser settings.
        </p>
      )}
      <Facts
        facts={[
          ['Adapter', adapterName(device)],
          ['Largest buffer', formatBytes(device.maxBufferBytes)],
          ['Features', device.features.length === 0 ? 'none' : [...device.features].sort().join(', ')],
          ['Model', model.id],
          ['Architecture', model.architecture],
          ['Parameters', `${formatNumber(model.parameters / 1e6, model.parameters < 1e7 ? 2 : 0)} million`],
          ['Quantization', model.quantization],
          ['Weights', formatBytes(model.sizeBytes)],
          [
            'Context',
            `${formatNumber(model.contextLength)} tokens` +
              (model.contextLength < model.trainedContextLength
                ? ` of ${formatNumber(model.trainedContextLength)} that it was trained for`
                : ''),
          ],
        ]}
      />
    </Panel>
  );
}
