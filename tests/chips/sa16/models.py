# SPDX-License-Identifier: Apache-2.0
"""networks.py as `presil cosim` and suites take models: a name each, module and input."""

import importlib.util
from pathlib import Path

_spec = importlib.util.spec_from_file_location("sa16_networks", Path(__file__).with_name("networks.py"))
_networks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_networks)


def _model(name: str):
    return lambda: _networks.network(name)


resnet8, ds_cnn, mobilenet_v1_025, autoencoder, resnet18 = map(_model, _networks.NETWORKS)
