import type * as tfjs from '@tensorflow/tfjs';
import { stringTensor, type TensorValue } from './event-file.ts';

/**
 * The part of a layer's JSON that describes the layer's inputs. TensorFlow.js writes the Keras 2 format, in which each input is a list
 * [layer, node, tensor, arguments].
 */
interface LayerJson {
  readonly config?: { readonly layers?: readonly LayerJson[] };
  readonly inbound_nodes?: readonly (readonly (readonly [string, number, number, ...unknown[]])[])[];
}

/**
 * Encodes a model's layers as Keras JSON for the Graphs tab ("conceptual graph"). TensorBoard draws edges only for the Keras 3 format
 * (tensorboard/plugins/graph/keras_util.py), so the function converts `inbound_nodes` to that format.
 * @throws the layer's error if a layer does not implement `getConfig`.
 */
export function graphValue(tag: string, model: tfjs.LayersModel): TensorValue {
  const json = JSON.stringify(inKeras3Style(model.toJSON(null, false) as LayerJson));
  return { tag, plugin: 'graph_keras_model', content: Buffer.from('1'), tensor: stringTensor([], [Buffer.from(json)]) };
}

function inKeras3Style(layer: LayerJson): unknown {
  const { config, inbound_nodes: nodes } = layer;
  return {
    ...layer,
    ...(config?.layers === undefined ? {} : { config: { ...config, layers: config.layers.map(inKeras3Style) } }),
    ...(nodes === undefined ? {} : { inbound_nodes: nodes.map((inputs) => ({ args: [inputs.map(tensorOf)], kwargs: {} })) }),
  };
}

function tensorOf([name, node, index]: readonly [string, number, number, ...unknown[]]): unknown {
  return { class_name: '__keras_tensor__', config: { keras_history: [name, node, index] } };
}
