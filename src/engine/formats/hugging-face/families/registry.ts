import type { Json } from '../../../../util/json.ts';
import { ModelFileError } from '../../model-file.ts';
import type { ModelFamily } from '../family.ts';
import { bert, bertReranker, nomicBert, xlmRoberta, xlmRobertaReranker } from './bert.ts';
import { gemma3, gemmaEmbedding } from './gemma3.ts';
import { gemma4 } from './gemma4.ts';
import { gptOss } from './gpt-oss.ts';
import { granite } from './granite.ts';
import { lfm2 } from './lfm2.ts';
import { llama, mistral } from './llama.ts';
import { phi3 } from './phi3.ts';
import { qwen2, qwen3, qwen3moe, qwen3Reranker } from './qwen.ts';
import { qwen3_5 } from './qwen3-5.ts';
import { smollm3 } from './smollm3.ts';

interface RegistryEntry {
  readonly family: ModelFamily;
  /** Values of `architectures[0]`. The first is the default of a configuration without `architectures`. */
  readonly classes: readonly [string, ...string[]];
}

/** Families by the `model_type` of config.json. */
const familiesByModelType: Readonly<Record<string, readonly RegistryEntry[]>> = {
  llama: [{ family: llama, classes: ['LlamaForCausalLM', 'LlamaModel'] }],
  mistral: [{ family: mistral, classes: ['MistralForCausalLM', 'MistralModel'] }],
  qwen2: [{ family: qwen2, classes: ['Qwen2ForCausalLM', 'Qwen2Model'] }],
  qwen3: [
    { family: qwen3, classes: ['Qwen3ForCausalLM', 'Qwen3Model'] },
    { family: qwen3Reranker, classes: ['Qwen3ForSequenceClassification'] },
  ],
  qwen3_moe: [{ family: qwen3moe, classes: ['Qwen3MoeForCausalLM'] }],
  gpt_oss: [{ family: gptOss, classes: ['GptOssForCausalLM'] }],
  qwen3_5: [{ family: qwen3_5, classes: ['Qwen3_5ForConditionalGeneration'] }],
  qwen3_5_text: [{ family: qwen3_5, classes: ['Qwen3_5ForCausalLM'] }],
  lfm2: [{ family: lfm2, classes: ['Lfm2ForCausalLM', 'LFM2ForCausalLM'] }],
  gemma3: [{ family: gemma3, classes: ['Gemma3ForConditionalGeneration'] }],
  gemma3_text: [
    { family: gemma3, classes: ['Gemma3ForCausalLM'] },
    { family: gemmaEmbedding, classes: ['Gemma3TextModel'] },
  ],
  gemma4: [{ family: gemma4, classes: ['Gemma4ForConditionalGeneration'] }],
  gemma4_text: [{ family: gemma4, classes: ['Gemma4ForCausalLM'] }],
  phi3: [{ family: phi3, classes: ['Phi3ForCausalLM'] }],
  smollm3: [{ family: smollm3, classes: ['SmolLM3ForCausalLM'] }],
  granite: [{ family: granite, classes: ['GraniteForCausalLM'] }],
  bert: [
    { family: bert, classes: ['BertModel', 'BertForMaskedLM'] },
    { family: bertReranker, classes: ['BertForSequenceClassification'] },
  ],
  'xlm-roberta': [
    { family: xlmRoberta, classes: ['XLMRobertaModel', 'XLMRobertaForMaskedLM'] },
    { family: xlmRobertaReranker, classes: ['XLMRobertaForSequenceClassification'] },
  ],
  nomic_bert: [{ family: nomicBert, classes: ['NomicBertModel'] }],
};

/** @throws ModelFileError `unsupported_architecture`; the message lists the supported values */
export const findFamily = (name: string, config: Json): ModelFamily => {
  const type = String(config.model_type);
  const entries = Object.hasOwn(familiesByModelType, type) ? familiesByModelType[type] : undefined;
  if (!entries) {
    throw new ModelFileError(
      'unsupported_architecture',
      `${name}: config.json: unknown model_type '${type}' (supported: ${Object.keys(familiesByModelType).join(', ')})`,
    );
  }
  const [first] = entries;
  const architecture = architectureOf(config) ?? first?.classes[0] ?? '';
  const entry = entries.find(({ classes }) => classes.includes(architecture));
  if (entry) return entry.family;
  const supported = entries.flatMap(({ classes }) => classes).join(', ');
  throw new ModelFileError(
    'unsupported_architecture',
    `${name}: config.json: '${architecture}' of model_type '${type}' is not supported (supported: ${supported})`,
  );
};

const architectureOf = ({ architectures: names }: Json): string | undefined =>
  Array.isArray(names) && typeof names[0] === 'string' ? names[0] : undefined;
